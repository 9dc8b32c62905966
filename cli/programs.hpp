// Owns where the programs of this installation are.
#pragma once

#include <string>

namespace prime::cli {

/// The program that runs, by its own path.
std::string own_program();
/// The program as its caller named it, for lines that a person pastes into a shell.
std::string typed_program();
/// prime-trainer beside it; by its bare name, for PATH, when it is not there.
std::string trainer_program();
/// prime-inference, likewise.
std::string inference_program();

}  // namespace prime::cli
