// Owns what the texts of a manifest may be: one rule for the loader, with the same rule as a pattern for editors.
#pragma once

#include "runtime/manifest/fields.hpp"

namespace prime::manifest {

bool is_run_name(std::string_view text);
bool is_path(std::string_view text);
bool is_glob(std::string_view text);
bool is_listen_address(std::string_view text);
bool is_advertised_address(std::string_view text);
bool is_argument(std::string_view text);
bool is_user(std::string_view text);
bool is_adapter(std::string_view text);
bool is_url(std::string_view text);
bool is_device(std::string_view text);
/// "cuda:1" of "GPU1", "cuda:01" and the like.
std::string meant_device(std::string_view text);

inline constexpr TextRule RUN_RULE{is_run_name, "a name of 1 to 40 of a-z, 0-9 and -, the first no -", "^[a-z0-9][a-z0-9-]{0,39}$",
                                   "my-run"};
inline constexpr TextRule PATH_RULE{is_path, "a path of 1 to 4096 bytes", "^[^\\u0000-\\u001f\\u007f]{1,4096}$", "/data/text"};
inline constexpr TextRule GLOB_RULE{is_glob, "a glob on file names, without `/`", "^[^/\\u0000-\\u001f\\u007f]{1,255}$", "\"*.txt\""};
inline constexpr TextRule LISTEN_RULE{is_listen_address, "HOST:PORT with a port from 0 to 65535",
                                      "^([A-Za-z0-9._-]{1,253}|\\[[0-9A-Fa-f:.]{2,45}\\]):[0-9]{1,5}$", "\"0.0.0.0:7077\""};
inline constexpr TextRule ADVERTISE_RULE{
    is_advertised_address, "HOST or HOST:PORT with a port from 1 to 65535",
    "^([A-Za-z0-9._-]{1,253}(:[0-9]{1,5})?|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*|\\[[0-9A-Fa-f:.]{2,45}\\]:[0-9]{1,5})$",
    "[peer1.example.org, \"203.0.113.7:7077\"]"};
inline constexpr TextRule USER_RULE{is_user, "a name of 1 to 255 bytes without line breaks", "^[^\\u0000-\\u001f\\u007f]{1,255}$", "prime"};
inline constexpr TextRule ARGUMENT_RULE{is_argument, "a text of 1 to 4096 bytes without line breaks", "^[^\\u0000-\\u001f\\u007f]{1,4096}$",
                                        "[python3, train.py]"};
inline constexpr TextRule ADAPTER_RULE{is_adapter, "up to 255 of A, C, G, T and N", "^[ACGTN]{0,255}$", "AGATCGGAAGAGC"};
inline constexpr TextRule URL_RULE{is_url, "http://HOST:PORT or https://HOST:PORT",
                                   "^https?://([A-Za-z0-9._-]{1,253}|\\[[0-9A-Fa-f:.]{2,45}\\]):[0-9]{1,5}$", "[\"http://10.0.0.5:2379\"]"};
inline constexpr TextRule DEVICE_RULE{is_device, "`cpu`, `cuda`, `cuda:N` with N from 0 to 99, or `auto`",
                                      "^(cpu|auto|cuda(:(0|[1-9][0-9]?))?)$", "\"cuda:0\"", meant_device};

}  // namespace prime::manifest
