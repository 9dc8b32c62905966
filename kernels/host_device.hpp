// Owns the one word that lets a function serve the CPU's and the GPU's compiler.
#pragma once

#ifdef __CUDACC__
#define PRIME_DEVICE __host__ __device__
#else
#define PRIME_DEVICE
#endif
