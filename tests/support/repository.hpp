// Owns where this checkout lies. Only main.cpp is compiled with its path: everything else has the same objects in each checkout, so that
// one checkout's compiler cache serves the others.
#pragma once

#include <filesystem>

namespace prime::test {

std::filesystem::path repository();

}  // namespace prime::test
