// Owns advisory locks of files: the kernel gives them back when their holder dies, and file servers that know locks do so across machines.
#pragma once

namespace prime::store {

/// `Unsupported`: the file system, or the server behind it, has no locks; `Failed`: errno says why.
enum class LockAnswer { Granted, Held, Unsupported, Failed };

/// The whole file or directory, until the descriptor and its copies are closed. `wait`: until it is free.
LockAnswer lock_whole(int fd, bool wait);
/// The same for several at once who only look: Held while somebody has it by lock_whole.
LockAnswer share_whole(int fd);

/// The lock of a file that says who lives. Unlike the one above, who only asks does not have it for a moment. Needs a descriptor that
/// writes.
LockAnswer lock_life(int fd);
/// Granted: nobody has it.
LockAnswer ask_life(int fd);

}  // namespace prime::store
