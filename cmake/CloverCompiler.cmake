# SPDX-License-Identifier: Apache-2.0
# Flags shared by every target.

# Contraction off: a*b+c is rounded twice unless std::fma is written, so that every build of the
# same source, and every instruction set, computes the same bits.
add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -ffp-contract=off -fno-math-errno)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 misreads its own std::string concatenation at -O3.
  add_compile_options(-Wno-restrict)
endif()
if(CLOVER_WERROR)
  add_compile_options(-Werror)
endif()
if(CLOVER_SANITIZE)
  # Assertions stay on, line numbers are all the debug information that a report needs, and little
  # optimisation compiles instrumented code in half the time.
  add_compile_options(-fsanitize=${CLOVER_SANITIZE} -fno-omit-frame-pointer
                      -fno-sanitize-recover=all -UNDEBUG -g1 -O1)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented code confuses this warning of g++ 12.
    add_compile_options(-Wno-error=maybe-uninitialized)
  endif()
  add_link_options(-fsanitize=${CLOVER_SANITIZE})
endif()
include_directories(${CMAKE_SOURCE_DIR}/src)

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
