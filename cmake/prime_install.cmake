# What `cmake --install` puts beside primectl: the programs that it starts, and the libraries for programs of one's own, found by
# find_package(prime) as prime::session and prime::group. Headers lie in a folder of their own, since some have names such as `messages/ids.hpp`.
# prime::device stays in the tree: where there is nvcc it stands on the toolkit's own static libraries.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(PRIME_TRAINER)
  # libtorch stays where it is: a link names it. Packages bring none, since where it is on another machine is known only there.
  set_target_properties(prime-trainer prime-inference PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/prime/torch/lib")
  install(TARGETS prime-trainer prime-inference COMPONENT primectl)
  install(CODE "
    set(libtorch \"$<TARGET_FILE_DIR:libtorch::libtorch>\")
    cmake_path(GET libtorch PARENT_PATH libtorch)
    set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/prime\")
    message(STATUS \"Installing: \${folder}/torch -> \${libtorch}\")
    file(MAKE_DIRECTORY \"\${folder}\")
    file(CREATE_LINK \"\${libtorch}\" \"\${folder}/torch\" SYMBOLIC)" COMPONENT libtorch)
endif()

# Below /usr and /usr/local systemd finds them there (docs/THREE-MACHINES.md).
install(FILES share/systemd/prime-run@.service share/systemd/prime-peer@.service DESTINATION lib/systemd/system COMPONENT primectl)

install(FILES manifests/quickstart.yaml DESTINATION "${CMAKE_INSTALL_DATADIR}/prime" COMPONENT primectl)
install(FILES README.md CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/prime" COMPONENT primectl)
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/prime" RENAME copyright COMPONENT primectl)

set_target_properties(prime_session PROPERTIES EXPORT_NAME session)
set_target_properties(prime_group PROPERTIES EXPORT_NAME group)
install(TARGETS prime_session prime_group prime_trainer_wire prime_lanes prime_net prime_machines prime_kernels prime_messages prime_rules
        EXPORT prime ARCHIVE COMPONENT libraries)
install(EXPORT prime FILE primeTargets.cmake NAMESPACE prime:: DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/prime" COMPONENT libraries)

file(WRITE "${PROJECT_BINARY_DIR}/primeConfig.cmake.in" "@PACKAGE_INIT@
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(OpenSSL 3)
find_dependency(hwy 1.0)
include(\"\${CMAKE_CURRENT_LIST_DIR}/primeTargets.cmake\")
")
configure_package_config_file("${PROJECT_BINARY_DIR}/primeConfig.cmake.in" "${PROJECT_BINARY_DIR}/primeConfig.cmake"
                              INSTALL_DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/prime")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/primeConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/primeConfig.cmake" "${PROJECT_BINARY_DIR}/primeConfigVersion.cmake"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/cmake/prime" COMPONENT libraries)

set(include "${CMAKE_INSTALL_INCLUDEDIR}/prime")
install(FILES runtime/include/prime/session.hpp runtime/include/prime/group.hpp DESTINATION "${include}/prime" COMPONENT libraries)
install(FILES messages/data_identity.hpp messages/data_types.hpp messages/errors.def messages/errors.hpp messages/ids.hpp messages/result.hpp
        DESTINATION "${include}/messages" COMPONENT libraries)
