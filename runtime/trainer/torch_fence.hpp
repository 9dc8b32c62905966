// Owns the way to libtorch: the only file that includes it, and the precompiled header of prime_model. No header that other
// libraries include may include this one.
#pragma once

#include <torch/torch.h>
