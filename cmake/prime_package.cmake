# What `./dev package` makes of the installed tree: a .deb, and a tarball that may be unpacked anywhere. libtorch is in neither: it is a
# wheel of its own, three sizes of which exist, and `lib/prime/torch` names the one that is wanted (README.md).
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_PACKAGE_NAME prime)
set(CPACK_PACKAGE_VENDOR "the prime project")
set(CPACK_PACKAGE_CONTACT "the maintainers of prime <maintainers@prime.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "training of one model on machines that do not trust their network")
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
# One package of all that the libraries and programs are, without what `cmake --install` adds of this machine's.
set(CPACK_COMPONENTS_ALL primectl libraries)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_PACKAGE_FILE_NAME "prime-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "Peers join a run by one pasted string, and leave or die at will; after every outer step
those that remain hold the same bits. prime-trainer and prime-inference need libtorch,
which no package of Debian brings: /usr/lib/prime/torch names the folder of the wheel
torch (see /usr/share/doc/prime/README.md). All else runs without it.")
# From what the programs are linked against; libtorch belongs to no package, and is not named.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
if(PRIME_TRAINER)
  get_target_property(libtorch libtorch::libtorch IMPORTED_LOCATION)
  cmake_path(GET libtorch PARENT_PATH CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS)
endif()
# For the wheel, and for programs that are linked with the libraries.
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-venv, g++, cmake, libssl-dev, libexpected-dev, libhwy-dev, libxxhash-dev")
# The tarball is one folder; CPack reads this file for each kind of package.
file(WRITE "${PROJECT_BINARY_DIR}/package_kind.cmake" "if(CPACK_GENERATOR STREQUAL TGZ)\n  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)\nendif()\n")
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_BINARY_DIR}/package_kind.cmake")
include(CPack)
