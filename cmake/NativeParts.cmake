# How native parts are compiled and put into the package, and what is said of those that are not.

# Compile a library of NAME.cpp that includes these headers of CUDA.
function(pasta_library name)
  pasta_find_headers(folders missing ${ARGN})
  if(NOT CMAKE_CXX_COMPILER)
    pasta_leave_out(${name} "no C++ compiler")
  elseif(missing)
    pasta_leave_out(${name} "no ${missing}")
  else()
    add_library(${name} MODULE "${PASTA_SOURCES}/${name}.cpp")
    target_compile_features(${name} PRIVATE cxx_std_20)
    target_include_directories(${name} SYSTEM PRIVATE ${folders})
    target_compile_options(${name} PRIVATE -w)
    pasta_link_options(options)
    target_link_options(${name} PRIVATE ${options})
    target_link_libraries(${name} PRIVATE ${CMAKE_DL_LIBS} rt)
    set_target_properties(${name} PROPERTIES PREFIX "")
    install(TARGETS ${name} LIBRARY DESTINATION ${PASTA_DESTINATION})
  endif()
endfunction()

# Set `options` so that the program's own library of C++, which may be older, need not fit.
function(pasta_link_options options)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LINK_OPTIONS -static-libstdc++ -static-libgcc -Wl,--exclude-libs,ALL)
  check_cxx_source_compiles("#include <string>\nint main() { return std::string().size(); }"
                            PASTA_STATIC_LIBRARY_OF_CXX)
  set(found -pthread)
  if(PASTA_STATIC_LIBRARY_OF_CXX)
    list(APPEND found ${CMAKE_REQUIRED_LINK_OPTIONS})
  endif()
  set(${options} ${found} PARENT_SCOPE)
endfunction()

# Compile a fatbin of NAME.cu that includes these headers, for all cards that nvcc knows.
function(pasta_patches name)
  pasta_find_headers(folders missing ${ARGN})
  if(missing)
    pasta_leave_out(${name} "no ${missing}")
  elseif(NOT PASTA_NVCC)
    pasta_leave_out(${name} "no nvcc")
  elseif(NOT CMAKE_CXX_COMPILER)
    pasta_leave_out(${name} "no C++ compiler")
  else()
    pasta_code_for_cards(${name} code)
    set(source "${PASTA_SOURCES}/${name}.cu")
    set(product "${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin")
    file(GLOB headers CONFIGURE_DEPENDS "${PASTA_SOURCES}/*.h")
    list(TRANSFORM folders PREPEND -I)
    add_custom_command(
      OUTPUT "${product}"
      COMMAND "${PASTA_NVCC}" --fatbin --compile-as-tools-patch -std=c++20 --threads=0
              --allow-unsupported-compiler --compiler-bindir "${CMAKE_CXX_COMPILER}"
              ${code} ${folders} "${source}" -o "${product}"
      DEPENDS "${source}" ${headers}
      VERBATIM)
    add_custom_target(${name} ALL DEPENDS "${product}")
    install(FILES "${product}" DESTINATION ${PASTA_DESTINATION})
  endif()
endfunction()

# Set `code` to nvcc's arguments; say which cards it is too old for.
function(pasta_code_for_cards name code)
  execute_process(COMMAND "${PASTA_NVCC}" --list-gpu-code OUTPUT_VARIABLE known)
  set(found)
  foreach(card IN LISTS PASTA_ARCHITECTURES)
    if(known MATCHES "sm_${card}[^0-9]")
      list(APPEND found --generate-code=arch=compute_${card},code=sm_${card})
    else()
      message(NOTICE "pasta: ${name} has no code for sm_${card}, which this nvcc does not know")
    endif()
  endforeach()
  list(APPEND found --generate-code=arch=compute_${PASTA_PORTABLE},code=compute_${PASTA_PORTABLE})
  set(${code} ${found} PARENT_SCOPE)
endfunction()

function(pasta_leave_out name why)
  set_property(GLOBAL APPEND PROPERTY PASTA_LEFT_OUT "${name} (${why})")
endfunction()

function(pasta_say_what_is_left_out)
  get_property(left_out GLOBAL PROPERTY PASTA_LEFT_OUT)
  if(left_out)
    list(JOIN left_out ", " left_out)
    message(NOTICE "pasta: not built, but compiled at first use: ${left_out}; pasta doctor says what to install")
  endif()
endfunction()
