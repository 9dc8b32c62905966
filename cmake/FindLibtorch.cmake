# Defines libtorch::libtorch, the part that computes on the CPU, of the libtorch that TORCH_PREFIX names: the folder that holds
# Torch/TorchConfig.cmake, or one above it. Its own configuration asks for a whole CUDA toolkit where it can use GPUs. We compile nothing
# against that part: a program loads it when a GPU is asked for (runtime/trainer/device).
find_file(Libtorch_CONFIG NAMES TorchConfig.cmake NO_CACHE NO_DEFAULT_PATH PATHS "${TORCH_PREFIX}"
          PATH_SUFFIXES Torch cmake/Torch share/cmake/Torch torch/share/cmake/Torch)
if(Libtorch_CONFIG)
  cmake_path(GET Libtorch_CONFIG PARENT_PATH Libtorch_configuration)
  cmake_path(ABSOLUTE_PATH Libtorch_configuration NORMALIZE)
  cmake_path(SET Libtorch_root NORMALIZE "${Libtorch_configuration}/../../..")
  find_path(Libtorch_INCLUDE_DIR NAMES ATen/ATen.h NO_CACHE NO_DEFAULT_PATH PATHS "${Libtorch_root}/include")
  find_library(Libtorch_torch_LIBRARY NAMES torch_cpu NO_CACHE NO_DEFAULT_PATH PATHS "${Libtorch_root}/lib")
  find_library(Libtorch_c10_LIBRARY NAMES c10 NO_CACHE NO_DEFAULT_PATH PATHS "${Libtorch_root}/lib")
  include("${Libtorch_configuration}/TorchConfigVersion.cmake" OPTIONAL)
  set(Libtorch_VERSION "${PACKAGE_VERSION}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libtorch REQUIRED_VARS Libtorch_CONFIG Libtorch_INCLUDE_DIR Libtorch_torch_LIBRARY Libtorch_c10_LIBRARY VERSION_VAR Libtorch_VERSION)
if(Libtorch_FOUND AND NOT TARGET libtorch::libtorch)
  add_library(libtorch::c10 SHARED IMPORTED GLOBAL)
  set_target_properties(libtorch::c10 PROPERTIES IMPORTED_LOCATION "${Libtorch_c10_LIBRARY}")
  add_library(libtorch::libtorch SHARED IMPORTED GLOBAL)
  # What libtorch itself stands on is found by it when it is loaded, and need not be there to link.
  set_target_properties(libtorch::libtorch PROPERTIES
    IMPORTED_LOCATION "${Libtorch_torch_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Libtorch_INCLUDE_DIR};${Libtorch_INCLUDE_DIR}/torch/csrc/api/include"
    INTERFACE_LINK_LIBRARIES libtorch::c10
    INTERFACE_LINK_OPTIONS "-Wl,--allow-shlib-undefined")
endif()
