// Owns where the programs of this installation are.
#pragma once

#include <string>
#include <string_view>

namespace prime::cli {

/// The program that runs, by its own path.
std::string own_program();
/// The program as its caller named it, for lines that a person pastes into a shell.
std::string typed_program();
/// prime-trainer beside it; by its bare name, for PATH, when it is not there.
std::string trainer_program();
/// Of what a program said that did not start: what to do where it found no libtorch; else empty.
std::string libtorch_hint(std::string_view said);
/// prime-inference, likewise.
std::string inference_program();

}  // namespace prime::cli
