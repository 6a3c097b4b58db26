# SPDX-License-Identifier: Apache-2.0
# A room is a folder of src/: its .cc files are a library, its *_test.cc files one test program. Files
# in its folder torch/ are another library (CloverTorch.cmake).

function(clover_room name)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/src/${name}/torch/")
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(sources)
    add_library(clover_${name} STATIC ${sources})
    target_link_libraries(clover_${name} PUBLIC ${ARG_DEPENDS})
  else()
    add_library(clover_${name} INTERFACE)
    target_link_libraries(clover_${name} INTERFACE ${ARG_DEPENDS})
  endif()
  if(CLOVER_TESTS AND tests)
    clover_test(${name}_test SOURCES ${tests} DEPENDS clover_${name})
  endif()
endfunction()

# A GoogleTest program. LABEL is "fast" (no model, default) or "model" (needs the default model).
function(clover_test name)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;DEPENDS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL fast)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gtest_main GTest::gmock)
  target_compile_definitions(${name} PRIVATE CLOVER_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES LABELS ${ARG_LABEL} TIMEOUT 600)
endfunction()

# The program `clover`, and where there is libtorch `clover-torch`: the same verbs, linked with it.
# Loading libtorch takes a quarter of a second, so `clover` does without and starts the other one for
# what needs it. TORCH_DEPENDS is linked into that one only.
function(clover_cli)
  cmake_parse_arguments(ARG "" "" "DEPENDS;TORCH_DEPENDS" ${ARGN})
  set(folder ${CMAKE_SOURCE_DIR}/src/cli)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$|/src/cli/(torch|without_torch)/")
  file(GLOB plain CONFIGURE_DEPENDS ${folder}/without_torch/*.cc)
  file(GLOB with_torch CONFIGURE_DEPENDS ${folder}/torch/*.cc)
  set_source_files_properties(${folder}/main.cc PROPERTIES
    COMPILE_DEFINITIONS CLOVER_VERSION="${PROJECT_VERSION}")
  add_library(clover_cli OBJECT ${sources})
  target_link_libraries(clover_cli PUBLIC ${ARG_DEPENDS})
  add_executable(clover ${plain})
  target_link_libraries(clover PRIVATE clover_cli)
  install(TARGETS clover)
  if(CLOVER_HAS_TORCH)
    add_executable(clover-torch ${with_torch})
    target_link_libraries(clover-torch PRIVATE clover_cli ${ARG_TORCH_DEPENDS})
    set_target_properties(clover-torch PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
    install(TARGETS clover-torch)
  endif()
endfunction()
