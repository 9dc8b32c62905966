// Owns where the programs of this installation are.
#pragma once

#include <string>

namespace prime::cli {

/// The program that runs, by its own path.
std::string own_program();
/// prime-trainer beside it; by its bare name, for PATH, when it is not there.
std::string trainer_program();

}  // namespace prime::cli
