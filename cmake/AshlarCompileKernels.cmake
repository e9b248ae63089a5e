# Run by the build (cmake -P): compiles the kernels of one generator for one code target into one relocatable object,
# OUTPUT, and those of DTYPES, which a program may leave out, into one each beside it (…_f16.o), and leaves the PTX of CUDA kernels, the assembler's reports and report.tsv beside it.
cmake_minimum_required(VERSION 3.25)

function(run folder)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${folder} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "failed: ${command}")
  endif()
endfunction()

set(device_tools "")
if(CODE_TARGET STREQUAL "cuda" AND PTXAS)
  set(device_tools ${PTXAS} ${NVFATBIN} ${ARCHITECTURES} --tools=${CUDA_TOOLS})
endif()
file(MAKE_DIRECTORY ${FOLDER})
run(${FOLDER} ${GENERATOR} compile ${CODE_TARGET} ${CUDA_CAPABILITY} ${FOLDER} ${TUNED}/${CODE_TARGET} ${device_tools}
  --cache=${CACHE} --slots=${SLOTS})
run(${FOLDER} ${COMPILER} -c -O1 -fPIC -w @tables.rsp)
run(${FOLDER} ${LINKER} -r --unique -o ${OUTPUT} @objects.rsp)
string(REPLACE "," ";" DTYPES "${DTYPES}")
cmake_path(REMOVE_EXTENSION OUTPUT)
foreach(dtype IN LISTS DTYPES)
  run(${FOLDER} ${LINKER} -r --unique -o ${OUTPUT}_${dtype}.o @objects_${dtype}.rsp)
endforeach()
