// Owns the codecs' vectors: the arithmetic of codec_scalar.hpp, so many lanes at a time, for each instruction set (Highway).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/codec/codec_vector.cpp"
// SSE4, AVX2, AVX-512, NEON. SSSE3 is not worth its code, and SVE machines have NEON too.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)
#include <hwy/foreach_target.h>
// The order matters: Highway's own header comes after the loop over targets.
#include <hwy/highway.h>

#include "kernels/codec/codec_vector.hpp"
#if HWY_TARGET != HWY_SCALAR
#include "kernels/codec/codec_decode-inl.hpp"
#include "kernels/codec/codec_encode-inl.hpp"
#endif

HWY_BEFORE_NAMESPACE();
namespace prime::kernels::HWY_NAMESPACE {
#if HWY_TARGET == HWY_SCALAR
// One lane cannot pair its codes; such a machine takes the reference.
EncodeGroups encode_groups_here(Codec, Rounding) { return nullptr; }
DecodeGroups decode_groups_here(Codec, Placement) { return nullptr; }
#endif
std::int64_t target_here() { return HWY_TARGET; }
}  // namespace prime::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace prime::kernels {
HWY_EXPORT(encode_groups_here);
HWY_EXPORT(decode_groups_here);
HWY_EXPORT(target_here);

EncodeGroups encode_groups(Codec codec, Rounding rounding) { return HWY_DYNAMIC_DISPATCH(encode_groups_here)(codec, rounding); }
DecodeGroups decode_groups(Codec codec, Placement placement) { return HWY_DYNAMIC_DISPATCH(decode_groups_here)(codec, placement); }
std::string_view codec_vectors() { return hwy::TargetName(HWY_DYNAMIC_DISPATCH(target_here)()); }
}  // namespace prime::kernels
#endif
