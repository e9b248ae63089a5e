# Run by the build (cmake -P): compiles the kernels of one generator for one code target into one relocatable object,
# OUTPUT, and leaves the PTX of CUDA kernels and the assembler's reports beside it. With CACHE set, the result is kept there
# under a hash of all that it depends on: the generator (kernel, schedule, language, Halide's name), the target, and for
# CUDA the capability, the architectures and the tools; and what the tuned tables in TUNED say about its kernels.
cmake_minimum_required(VERSION 3.25)

function(run folder)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${folder} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "failed: ${command}")
  endif()
endfunction()

file(SHA256 ${GENERATOR} generator_hash)
file(SHA256 ${CMAKE_CURRENT_LIST_FILE} script_hash)
set(device_tools "")
set(target_key ${CODE_TARGET})
if(CODE_TARGET STREQUAL "cuda")
  string(APPEND target_key " ${CUDA_CAPABILITY} ${ARCHITECTURES} ${CUDA_TOOLS}")
  if(PTXAS)
    set(device_tools ${PTXAS} ${NVFATBIN} ${ARCHITECTURES})
  endif()
endif()
# Of the tuned tables, what they say about these kernels.
execute_process(COMMAND ${GENERATOR} tuned ${TUNED}/${CODE_TARGET} OUTPUT_VARIABLE tuned RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "failed: ${GENERATOR} tuned ${TUNED}/${CODE_TARGET}")
endif()
string(SHA256 key "${generator_hash} ${script_hash} ${target_key} ${tuned}")
cmake_path(GET OUTPUT FILENAME file)
file(MAKE_DIRECTORY ${FOLDER})

if(CACHE AND EXISTS ${CACHE}/${key}/done)
  file(GLOB kept ${CACHE}/${key}/*.ptx ${CACHE}/${key}/*.ptxas)
  file(COPY ${CACHE}/${key}/${file} ${kept} DESTINATION ${FOLDER})
  file(TOUCH ${OUTPUT})
  return()
endif()

run(${FOLDER} ${GENERATOR} compile ${CODE_TARGET} ${CUDA_CAPABILITY} ${FOLDER} ${TUNED}/${CODE_TARGET} ${device_tools})
run(${FOLDER} ${COMPILER} -c -fPIC -w @tables.rsp)
run(${FOLDER} ${LINKER} -r --unique -o ${OUTPUT} @objects.rsp)

if(CACHE)
  # Into a folder of its own first: two builds may fill the cache at once, and either's result is right.
  string(RANDOM LENGTH 8 part)
  set(partial ${CACHE}/${key}.${part})
  file(GLOB kept ${FOLDER}/*.ptx ${FOLDER}/*.ptxas)
  file(COPY ${OUTPUT} ${kept} DESTINATION ${partial})
  file(TOUCH ${partial}/done)
  file(RENAME ${partial} ${CACHE}/${key} RESULT renamed)
  if(NOT renamed STREQUAL "0")
    file(REMOVE_RECURSE ${partial})
  endif()
endif()
