# Writes the source of a library that defines every symbol that a program exports:
#   cmake -DNM=nm -DPROGRAM=trifold -DSTUB=stub.cpp -P write_program_stub.cmake
execute_process(COMMAND ${NM} -D --defined-only --format=posix ${PROGRAM} OUTPUT_VARIABLE symbols
  COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "_Z[A-Za-z0-9_]+" symbols "${symbols}")
set(source "extern \"C\" {\n")
foreach(symbol ${symbols})
  string(APPEND source "char ${symbol};\n")
endforeach()
file(WRITE ${STUB} "${source}}\n")
