// cuBLASLt is a library of its own that has nothing but the simulator under it, as the real one: here is its copy of
// what it shares with cuBLAS.
#include "cublas/float_gemm.cpp"
#include "cublas/matmul.cpp"
#include "cublas/status_names.cpp"
#include "cublas/strided_memory.cpp"
