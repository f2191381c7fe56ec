// NVIDIA's own calculator, for `test_gpus.py` to ask.
#include <cstddef>
#include <cuda_occupancy.h>
extern "C" int blocks(const int* g, int threads, int registers, int shared) {
  cudaOccDeviceProp p; cudaOccFuncAttributes a; cudaOccDeviceState s;
  p.computeMajor = g[0]; p.computeMinor = g[1]; p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiprocessor = g[2]; p.regsPerBlock = g[3];
  p.regsPerMultiprocessor = g[3]; p.warpSize = 32; p.sharedMemPerBlock = g[4];
  p.sharedMemPerMultiprocessor = g[5]; p.sharedMemPerBlockOptin = g[6];
  p.reservedSharedMemPerBlock = g[7]; p.numSms = 1;
  a.maxThreadsPerBlock = 1024; a.numRegs = registers;
  a.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN; a.maxDynamicSharedSizeBytes = g[6];
  cudaOccResult r;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(&r, &p, &a, &s, threads, shared))
    return -1;
  return r.activeBlocksPerMultiprocessor;
}
