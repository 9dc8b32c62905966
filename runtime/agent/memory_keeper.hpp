// Owns how soon the others hear that a process was killed.
#pragma once

namespace prime {

/// The kernel frees the memory of a killed process before it closes its connections: with 1 GiB of tensors the peers hear of the loss
/// 70 to 100 ms later. A second process that shares the memory, and nothing else, keeps it until the first one is gone altogether;
/// so the connections close at once. It ends by itself then. Where the kernel does not allow it, everything works as without.
/// Call it once, before files are opened and threads are started.
void keep_memory_beyond_death();

}  // namespace prime
