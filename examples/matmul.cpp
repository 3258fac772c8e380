// A program of one's own, in any language: it prints how long its work took, and is bisected by --command.
//
// torchperf bisect --repo . --good v1.0 --bad main --command 'c++ -O2 -o matmul examples/matmul.cpp && ./matmul'

#include <chrono>
#include <cstdio>
#include <vector>

int main() {
  const int n = 192;
  std::vector<float> a(n * n, 1.5f), b(n * n, 0.5f), c(n * n);
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 5; ++round)
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < n; ++k)
        for (int j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  std::fprintf(stderr, "checksum %f\n", c[n]);  // else the compiler leaves out what nobody reads
  std::printf("%.4f\n", took.count());
}
