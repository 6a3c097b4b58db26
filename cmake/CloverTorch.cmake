# SPDX-License-Identifier: Apache-2.0
# What needs libtorch: every file in a folder src/ROOM/torch/. Such files are kept out of the room's
# own library, so that everything else builds without libtorch and starts without loading it.

set(CLOVER_TORCH AUTO CACHE STRING
  "Build what needs libtorch: ON, OFF, or AUTO (where it is found)")
set_property(CACHE CLOVER_TORCH PROPERTY STRINGS AUTO ON OFF)
set(CLOVER_TORCH_DIR "" CACHE PATH "Folder of libtorch, with include/ and lib/")
set(CLOVER_TORCH_MINIMUM 2.7)

set(CLOVER_HAS_TORCH FALSE)
if(CLOVER_TORCH STREQUAL "AUTO" AND NOT CLOVER_SANITIZE)
  find_package(Libtorch ${CLOVER_TORCH_MINIMUM} QUIET)
  set(CLOVER_HAS_TORCH ${Libtorch_FOUND})
elseif(CLOVER_TORCH STREQUAL "ON")
  find_package(Libtorch ${CLOVER_TORCH_MINIMUM})
  if(NOT Libtorch_FOUND)
    message(FATAL_ERROR "CLOVER_TORCH is ON, but libtorch ${CLOVER_TORCH_MINIMUM} or newer was not "
      "found. Run scripts/setup.sh torch, or set CLOVER_TORCH_DIR to the folder of an installed "
      "one (python3 -c 'import torch; print(torch.__path__[0])').")
  endif()
  set(CLOVER_HAS_TORCH TRUE)
elseif(NOT CLOVER_TORCH MATCHES "^(AUTO|OFF)$")
  message(FATAL_ERROR "CLOVER_TORCH is '${CLOVER_TORCH}'; it must be ON, OFF or AUTO")
endif()
if(CLOVER_HAS_TORCH)
  message(STATUS "libtorch ${Libtorch_VERSION} in ${Libtorch_INCLUDE} (CUDA: ${Libtorch_CUDA})")
else()
  message(STATUS "libtorch: not used; `clover train` will say so")
endif()

# The library clover_NAME_torch of the files in src/NAME/torch/, and its test program.
function(clover_torch_room name)
  if(NOT CLOVER_HAS_TORCH)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/torch/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(depends clover_${name} Libtorch::Libtorch ${ARG_DEPENDS})
  if(sources)
    add_library(clover_${name}_torch STATIC ${sources})
    target_link_libraries(clover_${name}_torch PUBLIC ${depends})
  else()
    add_library(clover_${name}_torch INTERFACE)
    target_link_libraries(clover_${name}_torch INTERFACE ${depends})
  endif()
  if(CLOVER_TESTS AND tests)
    clover_test(${name}_torch_test SOURCES ${tests} DEPENDS clover_${name}_torch)
  endif()
endfunction()
