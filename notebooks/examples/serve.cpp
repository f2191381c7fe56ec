// Runs a package of AOTInductor without Python:  serve PACKAGE ROWS...
// Link it with -ltorch -ltorch_cpu -lc10, from torch's own folder lib.
#include <ATen/ops/full.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int count, char** words) {
  torch::inductor::AOTIModelPackageLoader model(words[1]);
  for (int n = 2; n < count; ++n) {
    long rows = std::atol(words[n]);
    std::vector<at::Tensor> inputs = {at::full({rows, 16}, double(rows))};
    auto outputs = model.run(inputs);
    std::printf("rows %ld: scores %.2f, seen %.0f\n", rows,
                outputs[0].sum().item<double>(), outputs[1].item<double>());
  }
}
