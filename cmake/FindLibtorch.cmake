# SPDX-License-Identifier: Apache-2.0
# Finds libtorch and makes the target Libtorch::Libtorch. The package's own CMake files demand a CUDA
# toolkit even where no GPU is, so the libraries are taken directly. Looked for, in this order:
#   CLOVER_TORCH_DIR    a folder with include/ and lib/, such as that of an installed Python package
#                       (python3 -c 'import torch; print(torch.__path__[0])')
#   CMAKE_PREFIX_PATH
#   .cache/libtorch     where scripts/setup.sh unpacks the wheel
# Sets Libtorch_FOUND, Libtorch_VERSION and Libtorch_CUDA (whether it comes with CUDA).

set(clover_libtorch_hints "${CMAKE_SOURCE_DIR}/.cache/libtorch/torch")
if(CLOVER_TORCH_DIR)
  set(clover_libtorch_only NO_DEFAULT_PATH)
  set(clover_libtorch_hints "${CLOVER_TORCH_DIR}")
endif()
find_path(Libtorch_INCLUDE ATen/ATen.h PATHS ${clover_libtorch_hints} PATH_SUFFIXES include
  ${clover_libtorch_only})
# Headers and libraries of different versions must not meet.
get_filename_component(clover_libtorch_root "${Libtorch_INCLUDE}" DIRECTORY)
foreach(part torch_cpu c10 torch_cuda c10_cuda)
  find_library(Libtorch_${part} ${part} PATHS ${clover_libtorch_root} PATH_SUFFIXES lib
    NO_DEFAULT_PATH)
endforeach()

set(Libtorch_VERSION "")
foreach(header torch/headeronly/version.h torch/csrc/api/include/torch/version.h)
  if(Libtorch_VERSION STREQUAL "" AND EXISTS "${Libtorch_INCLUDE}/${header}")
    file(STRINGS "${Libtorch_INCLUDE}/${header}" clover_libtorch_line
      REGEX "^ *\"[0-9]+\\.[0-9]+\\.[0-9]+[^\"]*\"")
    string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" Libtorch_VERSION "${clover_libtorch_line}")
  endif()
endforeach()

# Whether a program links with the given libraries. It does not where they are of the other C++ library
# ABI, or where libraries that they need are missing (a wheel installed without its dependencies).
function(clover_libtorch_links result)
  set(folder ${CMAKE_BINARY_DIR}/CMakeFiles/libtorch)
  file(WRITE ${folder}/link.cc
    "#include <string>\n"
    "namespace c10::detail {\n"
    "[[noreturn]] void torchCheckFail(const char*, const char*, unsigned, const std::string&);\n"
    "}\n"
    "int main(int count, char**) {\n"
    "  if (count > 1) c10::detail::torchCheckFail(\"\", \"\", 0, std::string());\n"
    "}\n")
  try_compile(${result} ${folder} SOURCES ${folder}/link.cc
    LINK_OPTIONS ${clover_libtorch_options} LINK_LIBRARIES ${ARGN}
    CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON)
  set(${result} ${${result}} PARENT_SCOPE)
endfunction()

# Where the libraries' own needs lie in a Python package.
file(GLOB clover_libtorch_options ${clover_libtorch_root}/../nvidia/*/lib)
list(PREPEND clover_libtorch_options ${clover_libtorch_root}/lib)
list(TRANSFORM clover_libtorch_options PREPEND "-Wl,-rpath-link,")
if(Libtorch_torch_cpu AND Libtorch_c10)
  clover_libtorch_links(Libtorch_LINKS ${Libtorch_torch_cpu} ${Libtorch_c10})
endif()
# Nothing calls the CUDA libraries by name: their operators register themselves as they are loaded.
set(clover_libtorch_cuda
  "-Wl,--no-as-needed,${Libtorch_torch_cuda},${Libtorch_c10_cuda},--as-needed")
set(Libtorch_CUDA FALSE)
if(Libtorch_LINKS AND Libtorch_torch_cuda AND Libtorch_c10_cuda)
  clover_libtorch_links(Libtorch_CUDA ${Libtorch_torch_cpu} ${Libtorch_c10}
    ${clover_libtorch_cuda})
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libtorch
  REQUIRED_VARS Libtorch_torch_cpu Libtorch_c10 Libtorch_INCLUDE Libtorch_LINKS
  VERSION_VAR Libtorch_VERSION)
mark_as_advanced(Libtorch_INCLUDE Libtorch_torch_cpu Libtorch_c10 Libtorch_torch_cuda
  Libtorch_c10_cuda)

if(Libtorch_FOUND AND NOT TARGET Libtorch::Libtorch)
  # Its folder holds headers of other libraries too, {fmt} among them, which must not hide ours.
  set(clover_libtorch_include ${CMAKE_BINARY_DIR}/libtorch-include)
  file(MAKE_DIRECTORY ${clover_libtorch_include})
  foreach(part ATen c10 caffe2 torch)
    file(CREATE_LINK ${Libtorch_INCLUDE}/${part} ${clover_libtorch_include}/${part} SYMBOLIC)
  endforeach()
  add_library(Libtorch::Libtorch INTERFACE IMPORTED)
  target_include_directories(Libtorch::Libtorch SYSTEM INTERFACE ${clover_libtorch_include})
  target_link_libraries(Libtorch::Libtorch INTERFACE ${Libtorch_torch_cpu} ${Libtorch_c10})
  target_link_options(Libtorch::Libtorch INTERFACE ${clover_libtorch_options})
  if(Libtorch_CUDA)
    target_link_libraries(Libtorch::Libtorch INTERFACE ${clover_libtorch_cuda})
  endif()
endif()
