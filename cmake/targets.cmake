# One place for the flags; every target of ours links firn_flags.
add_library(firn_flags INTERFACE)
target_compile_options(firn_flags INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The presets take clang, which needs about half of the processor's time. g++ 12 takes variants for uninitialised once it
  # inlines enough (known to be wrong), and a unity build's anonymous namespaces for a header's.
  target_compile_options(firn_flags INTERFACE -Wno-maybe-uninitialized -Wno-subobject-linkage)
else()
  # Else what ccache kept of a precompiled header is refused for the time at which its sources were written.
  target_compile_options(firn_flags INTERFACE "SHELL:-Xclang -fno-pch-timestamp")
endif()
target_include_directories(firn_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_link_libraries(firn_flags INTERFACE firn_arrow fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json
  OpenSSL::Crypto Threads::Threads)
if(FIRN_SANITIZE)
  target_compile_options(firn_flags INTERFACE -fsanitize=${FIRN_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(firn_flags INTERFACE -fsanitize=${FIRN_SANITIZE})
endif()

file(WRITE ${CMAKE_BINARY_DIR}/pch.cc "")
add_library(firn_pch STATIC ${CMAKE_BINARY_DIR}/pch.cc)
target_link_libraries(firn_pch PUBLIC firn_flags)
target_precompile_headers(firn_pch PRIVATE ${CMAKE_SOURCE_DIR}/cmake/pch.h)

# Libraries beyond firn_flags that a folder's sources use.
set(FIRN_EXTRA_io SQLite::SQLite3)
set(FIRN_EXTRA_iceberg_puffin firn_roaring)
set(FIRN_EXTRA_orca_state PkgConfig::LIBPQ)
set(FIRN_EXTRA_orca_tasks Boost::headers)
set(FIRN_EXTRA_iceberg_metadata ZLIB::ZLIB)
set(FIRN_EXTRA_hyp_capture PkgConfig::ZSTD ZLIB::ZLIB)
set(FIRN_EXTRA_hyp_query firn_duckdb)
set(FIRN_EXTRA_hyp_http Boost::headers OpenSSL::SSL CURL::libcurl PkgConfig::ZSTD ZLIB::ZLIB)

# firn_library(NAME FOLDER DEPENDS a b): every .cc right in FOLDER, as the static library firn_NAME.
function(firn_library name folder)
  cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cc)
  if(NOT sources)
    set(sources ${CMAKE_BINARY_DIR}/pch.cc)
  endif()
  add_library(firn_${name} STATIC ${sources})
  list(TRANSFORM arg_DEPENDS PREPEND firn_)
  target_link_libraries(firn_${name} PUBLIC ${arg_DEPENDS} ${FIRN_EXTRA_${name}} firn_flags)
  target_precompile_headers(firn_${name} REUSE_FROM firn_pch)
  if(FIRN_FUZZ AND name MATCHES "^(base|io|iceberg_.*)$")  # what libFuzzer is to see the coverage of
    target_compile_options(firn_${name} PRIVATE
      -fsanitize-coverage=inline-8bit-counters,indirect-calls,trace-cmp,pc-table)
  endif()
endfunction()

# firn_program(NAME FOLDER DEPENDS a b): every .cc in FOLDER, as the program NAME in bin/.
function(firn_program name folder)
  cmake_parse_arguments(arg "" "" "DEPENDS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(program_${name} ${sources})
  list(TRANSFORM arg_DEPENDS PREPEND firn_)
  target_link_libraries(program_${name} PRIVATE ${arg_DEPENDS} firn_flags)
  target_precompile_headers(program_${name} REUSE_FROM firn_pch)
  target_compile_options(program_${name} PRIVATE -fPIC)  # -fPIC as the precompiled header was built
  set_target_properties(program_${name} PROPERTIES OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

# firn_test(NAME FOLDER DEPENDS a b LABELS unit slice TIMEOUT seconds): every *_test.cc in FOLDER, as one program that
# CTest runs whole.
function(firn_test name folder)
  cmake_parse_arguments(arg "" "TIMEOUT" "DEPENDS;LABELS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*_test.cc)
  if(NOT sources)
    return()
  endif()
  add_executable(test_${name} ${sources})
  list(TRANSFORM arg_DEPENDS PREPEND firn_)
  target_link_libraries(test_${name} PRIVATE ${arg_DEPENDS} firn_test_support GTest::gmock GTest::gtest_main firn_flags)
  target_precompile_headers(test_${name} REUSE_FROM firn_test_pch)
  target_compile_options(test_${name} PRIVATE ${FIRN_TEST_OPTIONS})
  target_compile_definitions(test_${name} PRIVATE FIRN_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  # Test files repeat small helpers of the same name, so they are no unity.
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests UNITY_BUILD OFF)
  add_test(NAME ${name} COMMAND test_${name})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)  # a hang, not a slow machine, is what ends a test
  endif()
  if(FIRN_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 3")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
  if("unit" IN_LIST arg_LABELS)
    add_dependencies(unit_tests test_${name})
  endif()
  if("bytes" IN_LIST arg_LABELS)
    add_dependencies(bytes_tests test_${name})
  endif()
endfunction()
