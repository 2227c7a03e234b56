// libcudnn has nothing but the simulator under it: here is its copy of the arithmetic and of the strided access to
// device memory that cuBLAS has too.
#include "cublas/float_gemm.cpp"
#include "cublas/strided_memory.cpp"
