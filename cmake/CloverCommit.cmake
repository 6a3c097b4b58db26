# SPDX-License-Identifier: Apache-2.0
# The commit that a program was built from, for its result files.
#
# clover_commit(TARGET) compiles `build_commit()` of cli/commit.h into TARGET. The file is written anew
# by every build, but only when the commit is another one, so that nothing else is compiled for it.
# As a script (cmake -DSOURCE=… -DOUTPUT=… -P) it writes the file.

if(CMAKE_SCRIPT_MODE_FILE)
  set(commit "")
  find_program(git git)
  if(git)
    execute_process(COMMAND ${git} -C ${SOURCE} describe --always --dirty OUTPUT_VARIABLE commit
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  if(NOT commit MATCHES "^[-._A-Za-z0-9]+$")
    set(commit "unknown")
  endif()
  file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#include "cli/commit.h"

namespace clover {

std::string_view build_commit() { return "@commit@"; }

}  // namespace clover
]] @ONLY)
else()
  function(clover_commit target)
    set(output ${CMAKE_BINARY_DIR}/generated/commit.cc)
    add_custom_target(clover_commit BYPRODUCTS ${output}
      COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${output}
              -P ${CMAKE_SOURCE_DIR}/cmake/CloverCommit.cmake)
    set_source_files_properties(${output} PROPERTIES GENERATED TRUE)
    target_sources(${target} PRIVATE ${output})
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src)
    add_dependencies(${target} clover_commit)
  endfunction()
endif()
