// The Python face of the kernels that move pictures.
#include <nanobind/stl/vector.h>

#include "binding.hpp"
#include "motion_jobs.hpp"

namespace nb = nanobind;
using namespace lrmc;
using given::need;

using Pictures = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using PicturesRoom = nb::ndarray<float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using SeenGiven = nb::ndarray<const uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using SeenRoom = nb::ndarray<uint8_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;
using Picture = given::Matrix<const float>;

template <class A> static bool has_shape(const A &x, int64_t count, int64_t height, int64_t width) {
  return int64_t(x.shape(0)) == count && int64_t(x.shape(1)) == height && int64_t(x.shape(2)) == width;
}

static Level level_of(const Picture &reference, const Picture &free, const Picture &smooth_y, const Picture &smooth_x,
                      int block) {
  Level level;
  level.height = int(reference.shape(0));
  level.width = int(reference.shape(1));
  level.rows = (level.height + block - 1) / block;
  level.columns = (level.width + block - 1) / block;
  need(level.height > 0 && level.width > 0, "reference", "is empty");
  need(int(free.shape(0)) == level.height && int(free.shape(1)) == level.width, "free", "has another shape");
  level.reference = reference.data();
  level.free = free.data();
  need(int(smooth_y.shape(0)) == level.rows && int(smooth_x.shape(0)) == level.columns, "windows",
       "have another shape");
  need(int(smooth_y.shape(1)) == level.rows && int(smooth_x.shape(1)) == level.columns, "windows",
       "have another shape");
  level.smooth_y = smooth_y.data();
  level.smooth_x = smooth_x.data();
  return level;
}

// Levels are given the finest first; each is half of the one before.
static void follow(Pictures frames, const std::vector<std::vector<Picture>> &levels, int halved, int block, int rounds,
                   double settled, double rejection, double grey, double ridge, double longest, PicturesRoom down,
                   PicturesRoom right, int threads) {
  need(!levels.empty() && block > 0 && halved >= 0 && halved < 31, "levels", "are missing");
  std::vector<Level> all;
  for (const auto &one : levels) {
    need(one.size() == 4, "a level", "has a reference, what is free, and two windows");
    all.push_back(level_of(one[0], one[1], one[2], one[3], block));
  }
  Follow job;
  job.count = int64_t(frames.shape(0));
  job.height = int(frames.shape(1));
  job.width = int(frames.shape(2));
  int height = job.height >> halved, width = job.width >> halved;
  for (const Level &level : all) {
    need(level.height == height && level.width == width, "a level", "is not half of the one before");
    height /= 2;
    width /= 2;
  }
  need(has_shape(down, job.count, all[0].rows, all[0].columns), "down", "has another shape");
  need(has_shape(right, job.count, all[0].rows, all[0].columns), "right", "has another shape");
  job.frames = frames.data();
  job.halved = halved;
  job.levels = all.data();
  job.n_levels = int(all.size());
  job.block = block;
  job.rounds = rounds;
  job.settled = float(settled);
  job.rejection = float(rejection);
  job.grey = float(grey);
  job.ridge = float(ridge);
  job.longest = float(longest);
  job.down = down.data();
  job.right = right.data();
  job.threads = threads;
  nb::gil_scoped_release unlocked;
  in_use().follow(job);
}

static Resample resample_of(const Pictures &pictures, const Pictures &down, const Pictures &right, int block,
                            int margin, int threads) {
  Resample job;
  job.pictures = pictures.data();
  job.count = int64_t(pictures.shape(0));
  job.height = int(pictures.shape(1));
  job.width = int(pictures.shape(2));
  need(job.height > 1 && job.width > 1, "pictures", "are lines");  // splines look at both sides
  job.margin = margin;
  job.rows = int(down.shape(1));
  job.columns = int(down.shape(2));
  need(block > 0 && margin >= 0 && job.rows > 0 && job.columns > 0, "down", "is empty");
  need(has_shape(down, job.count, job.rows, job.columns), "down", "has another shape");
  need(has_shape(right, job.count, job.rows, job.columns), "right", "has another shape");
  job.down = down.data();
  job.right = right.data();
  job.block = block;
  job.threads = threads;
  return job;
}

static void onto_canvas(Pictures frames, Pictures down, Pictures right, int block, int margin,
                        std::optional<Picture> hidden, PicturesRoom out, SeenRoom seen, int threads) {
  Resample job = resample_of(frames, down, right, block, margin, threads);
  const int height = job.height + 2 * margin, width = job.width + 2 * margin;
  need(has_shape(out, job.count, height, width) && has_shape(seen, job.count, height, width), "out",
       "has another shape");
  need(!hidden || (int(hidden->shape(0)) == job.height && int(hidden->shape(1)) == job.width), "hidden",
       "has another shape");
  job.hidden = hidden ? hidden->data() : nullptr;
  job.out = out.data();
  job.seen = seen.data();
  nb::gil_scoped_release unlocked;
  in_use().onto_canvas(job);
}

static void from_canvas(Pictures canvases, Pictures down, Pictures right, int block, int margin, PicturesRoom out,
                        int threads) {
  Resample job = resample_of(canvases, down, right, block, margin, threads);
  job.height -= 2 * margin;
  job.width -= 2 * margin;
  need(job.height > 0 && job.width > 0, "canvases", "have no room for their margins");
  need(has_shape(out, job.count, job.height, job.width), "out", "has another shape");
  job.out = out.data();
  nb::gil_scoped_release unlocked;
  in_use().from_canvas(job);
}

static Window window_of(const given::Vector<const float> &weights) {
  need(weights.shape(0) % 2 == 1, "a window", "has no middle");
  return {weights.data(), int(weights.shape(0) / 2)};
}

static void shrink(Pictures rest, given::Vector<const float> near, given::Vector<const float> common, bool both,
                   double sign, double beyond, double allowed, double level, PicturesRoom out, int threads) {
  Shrink job;
  job.rest = rest.data();
  job.count = int64_t(rest.shape(0));
  job.height = int(rest.shape(1));
  job.width = int(rest.shape(2));
  need(job.height > 0 && job.width > 0, "rest", "is empty");
  need(has_shape(out, job.count, job.height, job.width), "out", "has another shape");
  job.sign = float(sign);
  job.both = both;
  job.beyond = float(beyond);
  job.allowed = float(allowed);
  job.level = float(level);
  job.near = window_of(near);
  job.common = window_of(common);
  job.out = out.data();
  job.threads = threads;
  nb::gil_scoped_release unlocked;
  in_use().shrink(job);
}

static void noise_levels(Pictures rest, Pictures tissue, double least, given::Matrix<double> report, int threads) {
  NoiseLevels job;
  job.rest = rest.data();
  job.tissue = tissue.data();
  job.count = int64_t(rest.shape(0));
  job.height = int(rest.shape(1));
  job.width = int(rest.shape(2));
  need(has_shape(tissue, job.count, job.height, job.width), "tissue", "has another shape");
  need(int64_t(report.shape(0)) == job.count && report.shape(1) == 4, "report", "has another shape");
  job.least = float(least);
  job.report = report.data();
  job.threads = threads;
  nb::gil_scoped_release unlocked;
  in_use().noise_levels(job);
}

static void lasting(Pictures blood, int64_t brightest, given::Matrix<float> power, given::Matrix<float> lasting,
                    int threads) {
  Lasting job;
  job.blood = blood.data();
  job.count = int64_t(blood.shape(0));
  job.height = int(blood.shape(1));
  job.width = int(blood.shape(2));
  for (const auto *x : {&power, &lasting})
    need(int(x->shape(0)) == job.height && int(x->shape(1)) == job.width, "power, lasting", "have another shape");
  need(brightest > 0 && brightest < job.count, "brightest", "leaves no frame");
  job.brightest = brightest;
  job.power = power.data();
  job.lasting = lasting.data();
  job.threads = threads;
  nb::gil_scoped_release unlocked;
  in_use().lasting(job);
}

// Lines of `report` are in the order of PatchReport.
static void patches(Pictures frames, SeenGiven seen, given::Matrix<const int64_t> places, double least, bool both,
                    int told_by, int rounds, double settled, int overlap, PicturesRoom model,
                    given::Matrix<double> report, int threads) {
  static_assert(sizeof(PatchReport) == 6 * sizeof(double));
  Patches job;
  job.count = int(frames.shape(0));
  job.height = int(frames.shape(1));
  job.width = int(frames.shape(2));
  need(has_shape(seen, job.count, job.height, job.width), "seen", "has another shape");
  need(has_shape(model, job.count, job.height, job.width), "model", "has another shape");
  job.n = int64_t(places.shape(0));
  need(places.shape(1) == 4, "places", "have another shape");
  need(int64_t(report.shape(0)) == job.n && report.shape(1) == 6, "report", "has another shape");
  for (const int64_t *at = places.data(); at < places.data() + 4 * job.n; at += 4) {
    need(at[0] >= 0 && at[1] >= 0 && at[2] > 0 && at[3] > 0, "a patch", "is empty");
    need(at[0] + at[2] <= job.height && at[1] + at[3] <= job.width, "a patch", "is outside of the frames");
  }
  need(told_by > 0 && overlap > 0, "told_by, overlap", "are positive");
  job.frames = frames.data();
  job.seen = seen.data();
  job.places = places.data();
  job.least = float(least);
  job.both = both;
  job.told_by = told_by;
  job.rounds = rounds;
  job.settled = settled;
  job.overlap = overlap;
  job.model = model.data();
  job.report = reinterpret_cast<PatchReport *>(report.data());
  job.threads = threads;
  nb::gil_scoped_release unlocked;
  in_use().patches(job);
}

void lrmc::bind_motion(nb::module_ &m) {
  m.def("follow", &::follow, as_it_is("frames"), nb::arg("levels"), nb::kw_only(), nb::arg("halved"), nb::arg("block"),
        nb::arg("rounds"), nb::arg("settled"), nb::arg("rejection"), nb::arg("grey"), nb::arg("ridge"),
        nb::arg("longest"), as_it_is("down"), as_it_is("right"), nb::arg("threads"));
  m.def("onto_canvas", &::onto_canvas, as_it_is("frames"), as_it_is("down"), as_it_is("right"), nb::kw_only(),
        nb::arg("block"), nb::arg("margin"), as_it_is_or_none("hidden"), as_it_is("out"), as_it_is("seen"),
        nb::arg("threads"));
  m.def("from_canvas", &::from_canvas, as_it_is("canvases"), as_it_is("down"), as_it_is("right"), nb::kw_only(),
        nb::arg("block"), nb::arg("margin"), as_it_is("out"), nb::arg("threads"));
  m.def("shrink", &::shrink, as_it_is("rest"), as_it_is("near"), as_it_is("common"), nb::kw_only(), nb::arg("both"),
        nb::arg("sign"), nb::arg("beyond"), nb::arg("allowed"), nb::arg("level"), as_it_is("out"), nb::arg("threads"));
  m.def("noise_levels", &::noise_levels, as_it_is("rest"), as_it_is("tissue"), nb::kw_only(), nb::arg("least"),
        as_it_is("report"), nb::arg("threads"));
  m.def("lasting", &::lasting, as_it_is("blood"), nb::kw_only(), nb::arg("brightest"), as_it_is("power"),
        as_it_is("lasting"), nb::arg("threads"));
  m.def("patches", &::patches, as_it_is("frames"), as_it_is("seen"), as_it_is("places"), nb::kw_only(),
        nb::arg("least"), nb::arg("both"), nb::arg("told_by"), nb::arg("rounds"), nb::arg("settled"),
        nb::arg("overlap"), as_it_is("model"), as_it_is("report"), nb::arg("threads"));
}
