# Where CUDA's headers and compiler are. The build backend says in the environment where to look, in
# the order of choice (pasta/collect/toolkits.py); CMake on its own looks in the usual places.

foreach(kind TOOLKITS PACKAGES)
  file(TO_CMAKE_PATH "$ENV{PASTA_CUDA_${kind}}" PASTA_CUDA_${kind})
endforeach()
if(NOT PASTA_CUDA_TOOLKITS AND NOT PASTA_CUDA_PACKAGES)
  set(PASTA_CUDA_TOOLKITS $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda /opt/cuda)
endif()

find_program(PASTA_NVCC nvcc PATHS ${PASTA_CUDA_TOOLKITS} ${PASTA_CUDA_PACKAGES} PATH_SUFFIXES bin)

# Set `folders` to where these headers are, and `missing` to the first that is not there.
function(pasta_find_headers folders missing)
  set(found)
  set(${missing} "" PARENT_SCOPE)
  foreach(header IN LISTS ARGN)
    string(MAKE_C_IDENTIFIER "PASTA_FOLDER_OF_${header}" folder)
    if(header MATCHES "^sanitizer")
      set(roots ${PASTA_CUDA_PACKAGES} ${PASTA_CUDA_TOOLKITS})
      set(parts compute-sanitizer/include extras/compute-sanitizer/include lib/compute-sanitizer/include include)
    else()
      set(roots ${PASTA_CUDA_TOOLKITS} ${PASTA_CUDA_PACKAGES})
      set(parts include targets/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux/include targets/sbsa-linux/include
          extras/CUPTI/include)
    endif()
    find_path(${folder} NAMES ${header} PATHS ${roots} PATH_SUFFIXES ${parts} NO_DEFAULT_PATH)
    if(NOT ${folder})
      set(${missing} ${header} PARENT_SCOPE)
      return()
    endif()
    list(APPEND found ${${folder}})
  endforeach()
  list(REMOVE_DUPLICATES found)
  set(${folders} ${found} PARENT_SCOPE)
endfunction()
