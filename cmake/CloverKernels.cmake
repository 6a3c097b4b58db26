# SPDX-License-Identifier: Apache-2.0
# Kernel translation units are compiled for their instruction set; everything else stays at the
# baseline, so that the binary starts on any x86-64 and picks its kernels at run time.
set(dir ${CMAKE_SOURCE_DIR}/src/backend/cpu/kernels)
set_source_files_properties(${dir}/kernels_avx2.cc TARGET_DIRECTORY clover_backend PROPERTIES
  COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mno-avx512f")
set_source_files_properties(${dir}/kernels_avx512.cc TARGET_DIRECTORY clover_backend PROPERTIES
  COMPILE_OPTIONS "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mavx512vnni;-mfma;-mf16c")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # g++ 12 reports its own intrinsics' undefined pass-through operands.
  set_property(SOURCE ${dir}/kernels_avx512.cc TARGET_DIRECTORY clover_backend
    APPEND PROPERTY COMPILE_OPTIONS "-Wno-maybe-uninitialized;-Wno-uninitialized")
endif()
# Sixteen-lane loops in plain C++, unrolled: the optimiser's higher levels need minutes and gain
# little without wide registers.
set_source_files_properties(${dir}/kernels_reference.cc TARGET_DIRECTORY clover_backend PROPERTIES
  COMPILE_OPTIONS "-O1")
if(CLOVER_SANITIZE)
  # The unrolled kernels take many minutes to compile with every check. The reference set is built
  # from the same templates and reads the same addresses, so it alone carries the memory checks.
  set_property(SOURCE ${dir}/kernels_reference.cc TARGET_DIRECTORY clover_backend
    APPEND PROPERTY COMPILE_OPTIONS "-g0;-fno-sanitize=undefined")
  foreach(set avx2 avx512)
    set_property(SOURCE ${dir}/kernels_${set}.cc TARGET_DIRECTORY clover_backend
      APPEND PROPERTY COMPILE_OPTIONS "-O1;-g0;-fno-sanitize=all")
  endforeach()
endif()
