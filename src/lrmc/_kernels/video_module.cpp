// The Python face of the kernels for masks of video.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "binding.hpp"
#include "video.hpp"

namespace nb = nanobind;
using namespace lrmc;
using given::need;

using Masks3 = nb::ndarray<const bool, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using MasksRoom = nb::ndarray<bool, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Mask = given::Matrix<const bool>;
using MaskRoom = given::Matrix<bool>;
using Frame = nb::ndarray<const uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Behind = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using FrameSums = nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Frames = nb::ndarray<const uint8_t, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Backgrounds = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;
using Mix = std::optional<given::Matrix<const float>>;
using Sways = given::Matrix<const uint8_t>;

// Those of the instruction set that was chosen.
static const VideoKernels &in_use_here() {
#ifdef LRMC_AVX512
  if (&in_use() == &avx512::kernels) return avx512::video;
#endif
#ifdef LRMC_AVX2
  if (&in_use() == &avx2::kernels) return avx2::video;
#endif
  return baseline::video;
}

static_assert(sizeof(bool) == 1);
static const uint8_t *bytes(const bool *x) { return reinterpret_cast<const uint8_t *>(x); }
static uint8_t *bytes(bool *x) { return reinterpret_cast<uint8_t *>(x); }

template <class A, class B> static void need_same(const A &a, const B &b, size_t sides, const char *name) {
  for (size_t k = 0; k < sides; k++) need(a.shape(k) == b.shape(k), name, "has another shape");
}

static Picture picture_of(size_t height, size_t width, const char *name) {
  need(height > 0 && width > 0, name, "is empty");
  return {int(height), int(width)};
}

static Clean clean_of(int near, int gap) {
  need(near > 0 && near < 256 && near % 2 && gap > 0 && gap % 2, "near, gap", "are odd");
  return {near, gap};
}

static void clean(Masks3 found, int near, int gap, MasksRoom out) {
  need_same(found, out, 3, "out");
  const Picture shape = picture_of(found.shape(1), found.shape(2), "found");
  const Clean job = clean_of(near, gap);
  nb::gil_scoped_release unlocked;
  in_use_here().clean(bytes(found.data()), int64_t(found.shape(0)), shape, job, bytes(out.data()));
}

template <auto find> static void in_window(Masks3 mask, int size, MasksRoom out) {
  need_same(mask, out, 3, "out");
  need(size > 0, "size", "is positive");
  const Picture shape = picture_of(mask.shape(1), mask.shape(2), "mask");
  nb::gil_scoped_release unlocked;
  for (int64_t k = 0; k < int64_t(mask.shape(0)); k++)
    (in_use_here().*find)(bytes(mask.data()) + k * shape.size(), shape, size, bytes(out.data()) + k * shape.size());
}

static void connected(Mask mask, int64_t least, MaskRoom out) {
  need_same(mask, out, 2, "out");
  const Picture shape{int(mask.shape(0)), int(mask.shape(1))};
  nb::gil_scoped_release unlocked;
  in_use_here().connected(bytes(mask.data()), shape, least, bytes(out.data()));
}

static Distances distances_of(const Frames &frames, const Backgrounds &behind, const Mix &mix, double light) {
  need_same(frames, behind, 4, "behind");
  need(frames.shape(3) == 1 || frames.shape(3) == 3, "frames", "have 1 colour, or 3");
  if (mix) need(mix->shape(0) == 3 && mix->shape(1) == 3 && frames.shape(3) == 3, "mix", "is of three colours");
  Distances job;
  job.frames = frames.data();
  job.behind = behind.data();
  job.count = int64_t(frames.shape(0));
  job.shape = picture_of(frames.shape(1), frames.shape(2), "frames");
  job.colours = int(frames.shape(3));
  job.mix = mix ? mix->data() : nullptr;
  job.light = float(light);
  return job;
}

static void distances(Frames frames, Backgrounds behind, Mix mix, double light,
                      nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu> out) {
  const Distances job = distances_of(frames, behind, mix, light);
  need_same(frames, out, 3, "out");
  nb::gil_scoped_release unlocked;
  in_use_here().distances(job, out.data());
}

// The numbers of `shadows.py` that masks and evidence share.
using Numbers = std::tuple<int, double, double, double>;  // size of windows, noise, candidates, tint

static Shadows shadows_of(const given::Vector<const double> &edges, Numbers numbers) {
  const auto [size, noise, candidates, tint] = numbers;
  need(size > 0 && size % 2, "size", "is odd");
  Shadows job;
  job.size = size;
  job.edges = edges.data();
  job.n_edges = int(edges.shape(0));
  job.noise = float(noise);
  job.candidates = float(candidates);
  job.tint = float(tint);
  return job;
}

static void masks(Frames frames, Backgrounds behind, Mix mix, double light, double threshold,
                  std::optional<Sways> sways, int near, int gap, given::Vector<const double> edges, Numbers numbers,
                  double taken, std::optional<given::Vector<const bool>> ratios, MasksRoom out) {
  Masks job;
  job.of = distances_of(frames, behind, mix, light);
  need_same(frames, out, 3, "out");
  if (sways)
    need(sways->shape(0) == frames.shape(1) && sways->shape(1) == frames.shape(2), "sways", "have another shape");
  job.threshold = float(threshold);
  job.sways = sways ? sways->data() : nullptr;
  job.clean = clean_of(near, gap);
  job.out = bytes(out.data());
  Shadows shadows = shadows_of(edges, numbers);
  shadows.shape = job.of.shape;
  shadows.colours = job.of.colours;
  shadows.taken = float(taken);
  if (ratios) {
    need(int64_t(ratios->shape(0)) == 2 * shadows.bins(), "ratios", "have another shape");
    shadows.ratios = bytes(ratios->data());
    job.shadows = &shadows;
  }
  nb::gil_scoped_release unlocked;
  in_use_here().masks(job);
}

static void add_slopes(Frame frame, Behind behind, Mask mask, given::Vector<const double> edges, Numbers numbers,
                       double alike, double texture, given::Matrix<double> sums) {
  Shadows job = shadows_of(edges, numbers);
  need_same(frame, behind, 3, "behind");
  need_same(frame, mask, 2, "mask");
  need(sums.shape(0) == 3 && int64_t(sums.shape(1)) == 2 * job.bins(), "sums", "have another shape");
  job.frame = frame.data();
  job.behind = behind.data();
  job.shape = picture_of(frame.shape(0), frame.shape(1), "frame");
  job.colours = int(frame.shape(2));
  job.alike = float(alike);
  job.texture = float(texture);
  nb::gil_scoped_release unlocked;
  in_use_here().add_slopes(job, bytes(mask.data()), sums.data());
}

static void note(Frame frame, Behind behind, given::Matrix<const float> off, Mask mask, int64_t least, int room,
                 double threshold, given::Matrix<uint8_t> farthest, given::Matrix<uint8_t> seen, FrameSums sums,
                 FrameSums squares, given::Matrix<float> count) {
  for (size_t k = 0; k < 3; k++)
    need(frame.shape(k) == behind.shape(k) && frame.shape(k) == sums.shape(k) && frame.shape(k) == squares.shape(k),
         "sums", "have another shape");
  need_same(frame, off, 2, "off");
  need_same(frame, mask, 2, "mask");
  need_same(frame, farthest, 2, "farthest");
  need_same(frame, seen, 2, "seen");
  need_same(frame, count, 2, "count");
  need(room > 0, "room", "is positive");
  Noted job;
  job.frame = frame.data();
  job.behind = behind.data();
  job.off = off.data();
  job.mask = bytes(mask.data());
  job.shape = picture_of(frame.shape(0), frame.shape(1), "frame");
  job.colours = int(frame.shape(2));
  job.room = room;
  job.least = least;
  job.threshold = float(threshold);
  job.farthest = farthest.data();
  job.seen = seen.data();
  job.sums = sums.data();
  job.squares = squares.data();
  job.count = count.data();
  nb::gil_scoped_release unlocked;
  in_use_here().note(job);
}

static void byte_medians(given::Matrix<const uint8_t> rows, int64_t step, given::Vector<const uint8_t> before,
                         given::Vector<uint8_t> out) {
  need(step > 0 && (int64_t(rows.shape(0)) + step - 1) / step < 256, "rows", "are too many");
  need(before.shape(0) == rows.shape(1) && out.shape(0) == rows.shape(1), "out", "has another shape");
  Medians job;
  job.rows = rows.data();
  job.before = before.data();
  job.count = int64_t(rows.shape(0));
  job.n = int64_t(rows.shape(1));
  job.step = step;
  job.out = out.data();
  nb::gil_scoped_release unlocked;
  in_use_here().medians(job);
}

static void smooth(given::Matrix<const uint8_t> picture, const std::vector<float> &weights, given::Matrix<float> out) {
  need_same(picture, out, 2, "out");
  need(!weights.empty(), "weights", "are none");
  const Picture shape = picture_of(picture.shape(0), picture.shape(1), "picture");
  nb::gil_scoped_release unlocked;
  in_use_here().smooth(picture.data(), shape, weights, out.data());
}

static Pixels pixels_of(const given::Matrix<const uint8_t> &frames, const given::Matrix<const float> &V,
                        const given::Matrix<const float> &scores) {
  need(V.shape(0) == frames.shape(1) && V.shape(1) > 0, "V", "has another shape");
  need(scores.shape(0) == frames.shape(0) && scores.shape(1) == V.shape(1), "scores", "have another shape");
  Pixels job;
  job.frames = frames.data();
  job.V = V.data();
  job.scores = scores.data();
  job.count = int64_t(frames.shape(0));
  job.n = int64_t(frames.shape(1));
  job.rank = int(V.shape(1));
  return job;
}

static void near_background(given::Matrix<const uint8_t> frames, given::Matrix<const float> V,
                            given::Matrix<const float> scores, int colours, double reach, given::Vector<int32_t> out) {
  const Pixels job = pixels_of(frames, V, scores);
  need(colours > 0 && int64_t(out.shape(0)) * colours == job.n, "out", "has another shape");
  nb::gil_scoped_release unlocked;
  in_use_here().near_background(job, colours, float(reach), out.data());
}

static void part_medians(given::Matrix<const uint8_t> frames, given::Matrix<const float> V,
                         given::Matrix<const float> scores, const std::vector<int64_t> &ends,
                         given::Matrix<float> out) {
  const Pixels job = pixels_of(frames, V, scores);
  need(out.shape(0) == ends.size() && int64_t(out.shape(1)) == job.n, "out", "has another shape");
  int64_t begin = 0;
  for (int64_t end : ends) {
    need(end > begin && end <= job.count, "ends", "do not grow");
    begin = end;
  }
  nb::gil_scoped_release unlocked;
  in_use_here().part_medians(job, ends, out.data());
}

static void tile_sums(given::Matrix<const float> one, given::Matrix<const float> other,
                      nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu> out) {
  need_same(one, other, 2, "other");
  const int tiles = int(out.shape(1));
  need(out.shape(0) == 5 && tiles > 0 && out.shape(2) == out.shape(1), "out", "has another shape");
  need(int(one.shape(0)) >= tiles && int(one.shape(1)) >= tiles, "pictures", "are smaller than their tiles");
  const Picture shape{int(one.shape(0)), int(one.shape(1))};
  nb::gil_scoped_release unlocked;
  in_use_here().tile_sums(one.data(), other.data(), shape, tiles, out.data());
}

void lrmc::bind_video(nb::module_ &m) {
  m.def("clean", &::clean, as_it_is("found"), nb::kw_only(), nb::arg("near"), nb::arg("gap"), as_it_is("out"));
  m.def("any_in", &::in_window<&VideoKernels::any_in>, as_it_is("mask"), nb::arg("size"), nb::kw_only(),
        as_it_is("out"));
  m.def("all_in", &::in_window<&VideoKernels::all_in>, as_it_is("mask"), nb::arg("size"), nb::kw_only(),
        as_it_is("out"));
  m.def("connected", &::connected, as_it_is("mask"), nb::arg("least"), nb::kw_only(), as_it_is("out"));
  m.def("distances", &::distances, as_it_is("frames"), as_it_is("behind"), as_it_is_or_none("mix"), nb::kw_only(),
        nb::arg("light") = 1.0, as_it_is("out"));
  m.def("masks", &::masks, as_it_is("frames"), as_it_is("behind"), as_it_is_or_none("mix"), nb::kw_only(),
        nb::arg("light"), nb::arg("threshold"), as_it_is_or_none("sways"), nb::arg("near"), nb::arg("gap"),
        as_it_is("edges"), nb::arg("numbers"), nb::arg("taken"), as_it_is_or_none("ratios"), as_it_is("out"));
  m.def("add_slopes", &::add_slopes, as_it_is("frame"), as_it_is("behind"), as_it_is("mask"), nb::kw_only(),
        as_it_is("edges"), nb::arg("numbers"), nb::arg("alike"), nb::arg("texture"), as_it_is("sums"));
  m.def("note", &::note, as_it_is("frame"), as_it_is("behind"), as_it_is("off"), as_it_is("mask"), nb::kw_only(),
        nb::arg("least"), nb::arg("room"), nb::arg("threshold"), as_it_is("farthest"), as_it_is("seen"),
        as_it_is("sums"), as_it_is("squares"), as_it_is("count"));
  m.def("near_background", &::near_background, as_it_is("frames"), as_it_is("V"), as_it_is("scores"), nb::kw_only(),
        nb::arg("colours"), nb::arg("reach"), as_it_is("out"));
  m.def("part_medians", &::part_medians, as_it_is("frames"), as_it_is("V"), as_it_is("scores"), nb::arg("ends"),
        nb::kw_only(), as_it_is("out"));
  m.def("byte_medians", &::byte_medians, as_it_is("rows"), nb::kw_only(), nb::arg("step"), as_it_is("before"),
        as_it_is("out"));
  m.def("smooth", &::smooth, as_it_is("picture"), nb::arg("weights"), nb::kw_only(), as_it_is("out"));
  m.def("tile_sums", &::tile_sums, as_it_is("one"), as_it_is("other"), nb::kw_only(), as_it_is("out"));
}
