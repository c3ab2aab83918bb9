// The Python face of the kernels for masks of video.
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "binding.hpp"
#include "video.hpp"

namespace nb = nanobind;
using namespace lrmc;
using given::need;

using Masks = nb::ndarray<const bool, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using MasksRoom = nb::ndarray<bool, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Mask = given::Matrix<const bool>;
using MaskRoom = given::Matrix<bool>;
using Frame = nb::ndarray<const uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Behind = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Place = std::tuple<int, int, int, int>;

static_assert(sizeof(bool) == 1);
static const uint8_t *bytes(const bool *x) { return reinterpret_cast<const uint8_t *>(x); }
static uint8_t *bytes(bool *x) { return reinterpret_cast<uint8_t *>(x); }

template <class A, class B> static void need_same(const A &a, const B &b, size_t sides, const char *name) {
  for (size_t k = 0; k < sides; k++) need(a.shape(k) == b.shape(k), name, "has another shape");
}

static void clean(Masks found, int near, int gap, MasksRoom out) {
  need_same(found, out, 3, "out");
  need(near > 0 && near < 256 && near % 2 && gap > 0 && gap % 2, "near, gap", "are odd");
  need(found.shape(1) > 0 && found.shape(2) > 0, "found", "is empty");
  Majority job;
  job.found = bytes(found.data());
  job.out = bytes(out.data());
  job.count = int64_t(found.shape(0));
  job.height = int(found.shape(1));
  job.width = int(found.shape(2));
  job.near = near;
  job.gap = gap;
  nb::gil_scoped_release unlocked;
  lrmc::clean(job);
}

template <auto find> static void in_window(Masks mask, int size, MasksRoom out) {
  need_same(mask, out, 3, "out");
  need(size > 0, "size", "is positive");
  const int64_t n = int64_t(mask.shape(1)) * int64_t(mask.shape(2));
  need(n > 0, "mask", "is empty");
  nb::gil_scoped_release unlocked;
  for (int64_t k = 0; k < int64_t(mask.shape(0)); k++)
    find(bytes(mask.data()) + k * n, int(mask.shape(1)), int(mask.shape(2)), size, bytes(out.data()) + k * n);
}

static void connected(Mask mask, int64_t least, MaskRoom out) {
  need_same(mask, out, 2, "out");
  nb::gil_scoped_release unlocked;
  lrmc::connected(bytes(mask.data()), int(mask.shape(0)), int(mask.shape(1)), least, bytes(out.data()));
}

static void in_cells(Mask mask, int cell, MaskRoom out) {
  need(cell > 0, "cell", "is positive");
  for (size_t k = 0; k < 2; k++) need(out.shape(k) == (mask.shape(k) + cell - 1) / cell, "out", "has another shape");
  nb::gil_scoped_release unlocked;
  lrmc::in_cells(bytes(mask.data()), int(mask.shape(0)), int(mask.shape(1)), cell, bytes(out.data()));
}

static std::vector<Box> boxes_of(const std::vector<Place> &given, int height, int width) {
  std::vector<Box> boxes;
  for (auto [top, left, rows, columns] : given) {
    need(top >= 0 && left >= 0 && rows > 0 && columns > 0, "a box", "is empty");
    need(top + rows <= height && left + columns <= width, "a box", "is outside of the frame");
    boxes.push_back({top, left, rows, columns});
  }
  return boxes;
}

static Shadows shadows_of(const Frame &frame, const Behind &behind, const given::Vector<const double> &edges, int size,
                          double noise, double candidates, double tint) {
  need_same(frame, behind, 3, "behind");
  need(size > 0 && frame.shape(2) > 0, "size", "is positive");
  Shadows job;
  job.frame = frame.data();
  job.behind = behind.data();
  job.height = int(frame.shape(0));
  job.width = int(frame.shape(1));
  job.colours = int(frame.shape(2));
  job.size = size;
  job.edges = edges.data();
  job.n_edges = int(edges.shape(0));
  job.noise = float(noise);
  job.candidates = float(candidates);
  job.tint = float(tint);
  return job;
}

static void add_slopes(Frame frame, Behind behind, Mask mask, const std::vector<Place> &boxes,
                       given::Vector<const double> edges, int size, double noise, double candidates, double tint,
                       double alike, double texture, given::Matrix<double> sums) {
  Shadows job = shadows_of(frame, behind, edges, size, noise, candidates, tint);
  need_same(frame, mask, 2, "mask");
  need(sums.shape(0) == 3 && int64_t(sums.shape(1)) == 2 * job.bins(), "sums", "have another shape");
  job.alike = float(alike);
  job.texture = float(texture);
  const std::vector<Box> places = boxes_of(boxes, job.height, job.width);
  nb::gil_scoped_release unlocked;
  for (Box box : places) lrmc::add_slopes(job, box, bytes(mask.data()), sums.data());
}

static void leave_out(Frame frame, Behind behind, Mask far, const std::vector<Place> &boxes,
                      given::Vector<const double> edges, int size, double noise, double candidates, double tint,
                      double taken, given::Vector<const bool> ratios, MaskRoom left) {
  Shadows job = shadows_of(frame, behind, edges, size, noise, candidates, tint);
  need_same(frame, far, 2, "far");
  need_same(frame, left, 2, "left");
  need(int64_t(ratios.shape(0)) == 2 * job.bins(), "ratios", "have another shape");
  job.taken = float(taken);
  const std::vector<Box> places = boxes_of(boxes, job.height, job.width);
  nb::gil_scoped_release unlocked;
  for (Box box : places) lrmc::leave_out(job, box, bytes(far.data()), bytes(ratios.data()), bytes(left.data()));
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
  lrmc::near_background(job, colours, float(reach), out.data());
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
  lrmc::part_medians(job, ends, out.data());
}

static void tile_sums(given::Matrix<const float> one, given::Matrix<const float> other,
                      nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu> out) {
  need_same(one, other, 2, "other");
  const int tiles = int(out.shape(1));
  need(out.shape(0) == 5 && tiles > 0 && out.shape(2) == out.shape(1), "out", "has another shape");
  need(int(one.shape(0)) >= tiles && int(one.shape(1)) >= tiles, "pictures", "are smaller than their tiles");
  nb::gil_scoped_release unlocked;
  lrmc::tile_sums(one.data(), other.data(), int(one.shape(0)), int(one.shape(1)), tiles, out.data());
}

void lrmc::bind_video(nb::module_ &m) {
  m.def("clean", &::clean, as_it_is("found"), nb::kw_only(), nb::arg("near"), nb::arg("gap"), as_it_is("out"));
  m.def("any_in", &::in_window<&any_in_window>, as_it_is("mask"), nb::arg("size"), nb::kw_only(), as_it_is("out"));
  m.def("all_in", &::in_window<&all_in_window>, as_it_is("mask"), nb::arg("size"), nb::kw_only(), as_it_is("out"));
  m.def("connected", &::connected, as_it_is("mask"), nb::arg("least"), nb::kw_only(), as_it_is("out"));
  m.def("in_cells", &::in_cells, as_it_is("mask"), nb::arg("cell"), nb::kw_only(), as_it_is("out"));
  m.def("add_slopes", &::add_slopes, as_it_is("frame"), as_it_is("behind"), as_it_is("mask"), nb::arg("boxes"),
        nb::kw_only(), as_it_is("edges"), nb::arg("size"), nb::arg("noise"), nb::arg("candidates"), nb::arg("tint"),
        nb::arg("alike"), nb::arg("texture"), as_it_is("sums"));
  m.def("leave_out", &::leave_out, as_it_is("frame"), as_it_is("behind"), as_it_is("far"), nb::arg("boxes"),
        nb::kw_only(), as_it_is("edges"), nb::arg("size"), nb::arg("noise"), nb::arg("candidates"), nb::arg("tint"),
        nb::arg("taken"), as_it_is("ratios"), as_it_is("left"));
  m.def("near_background", &::near_background, as_it_is("frames"), as_it_is("V"), as_it_is("scores"), nb::kw_only(),
        nb::arg("colours"), nb::arg("reach"), as_it_is("out"));
  m.def("part_medians", &::part_medians, as_it_is("frames"), as_it_is("V"), as_it_is("scores"), nb::arg("ends"),
        nb::kw_only(), as_it_is("out"));
  m.def("tile_sums", &::tile_sums, as_it_is("one"), as_it_is("other"), nb::kw_only(), as_it_is("out"));
}
