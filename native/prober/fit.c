#include "fit.h"

#include <math.h>
#include <string.h>

/* 30 points and 3 corners: fewer do not pin a line; the corners span half the window or its slope is a guess. */
enum { POINTS_MIN = 30, HULL_MIN = 3, STEPS = 12, NEAR_MIN = 4 };
static const double RATE_MAX = 1e-3; /* five times the drift that production systems allow for */
static const double ROUNDING_NS = 1e-3; /* of doubles; stamps are whole ns */
/* From how densely points lie at a side of the strip to the error of the line at the window's end: each end of the strip
   is held by about a quarter of the points, and the error at the end is twice that in the middle. Measured: the error of
   1,500 windows of 28 edges (virtual Ethernet, known clocks) was 6 to 9 times the density's at all densities. */
static const double AT_END = 8;
static const double GOLDEN = 0.6180339887498949;

struct point {
    double t, d; /* less the bases: small enough for a double to hold each ns */
};

/* Work space: large, and one fit at a time in a process. */
static struct point points[2][FIT_POINTS_MAX], hulls[2][FIT_POINTS_MAX], near[2][FIT_POINTS_MAX];
static double residuals[FIT_POINTS_MAX];

static double cross(struct point a, struct point b, struct point c) {
    return (b.t - a.t) * (c.d - a.d) - (c.t - a.t) * (b.d - a.d);
}

/* The side of the hull that faces the strip: below for sign 1, above for -1. Monotone chain. */
static int32_t hull_of(const struct point *from, int32_t count, double sign, struct point *hull) {
    int32_t size = 0;
    for (int32_t i = 0; i < count; i++) {
        if (size && hull[size - 1].t == from[i].t) { /* of one time only the nearest to the strip */
            if (sign * (hull[size - 1].d - from[i].d) <= 0) continue;
            size--;
        }
        while (size >= 2 && sign * cross(hull[size - 2], hull[size - 1], from[i]) <= 0) size--;
        hull[size++] = from[i];
    }
    return size;
}

static double slope_between(struct point a, struct point b) { return (b.d - a.d) / (b.t - a.t); }

/* Walks over the slopes from -RATE_MAX to RATE_MAX; at each the strip is held by one corner of either hull. */
struct walk {
    const struct point *upper, *lower;
    int32_t u, uppers; /* the upper corner moves to later times */
    int32_t l;         /* the lower one to earlier times */
};

/* The next slope at which a corner changes, and past it. */
static double next_slope(const struct walk *walk) {
    double of_upper = walk->u + 1 < walk->uppers ? slope_between(walk->upper[walk->u], walk->upper[walk->u + 1]) : INFINITY;
    double of_lower = walk->l > 0 ? slope_between(walk->lower[walk->l - 1], walk->lower[walk->l]) : INFINITY;
    return of_upper < of_lower ? of_upper : of_lower;
}

static void pass(struct walk *walk, double slope) {
    while (walk->u + 1 < walk->uppers && slope_between(walk->upper[walk->u], walk->upper[walk->u + 1]) <= slope) walk->u++;
    while (walk->l > 0 && slope_between(walk->lower[walk->l - 1], walk->lower[walk->l]) <= slope) walk->l--;
}

static double width_at(const struct walk *walk, double slope) {
    struct point u = walk->upper[walk->u], l = walk->lower[walk->l];
    return (u.d - l.d - slope * (u.t - l.t)) / 2;
}

struct strip {
    double slope, width;    /* the widest */
    double least, greatest; /* slopes between which there is a strip at all; without one both are the widest's */
    int is_held;            /* whether the widest was found within RATE_MAX */
};

static struct strip widest(const struct point *upper, int32_t uppers, const struct point *lower, int32_t lowers) {
    struct walk walk = {upper, lower, 0, uppers, lowers - 1};
    struct strip found = {0, -INFINITY, NAN, NAN, 0};
    double slope = -RATE_MAX, plateau = NAN;
    pass(&walk, slope);
    double width = width_at(&walk, slope);
    if (width >= 0) found.least = slope;
    while (slope < RATE_MAX) {
        double gain = (walk.lower[walk.l].t - walk.upper[walk.u].t) / 2;
        double next = fmin(next_slope(&walk), RATE_MAX);
        double there = width_at(&walk, next);
        if (gain == 0 && isnan(plateau)) { /* as wide at each slope from here on to the next: the middle */
            plateau = slope / 2 + next / 2;
            found.slope = plateau, found.width = width, found.is_held = slope > -RATE_MAX && next < RATE_MAX;
        } else if (gain < 0 && isnan(plateau)) {
            plateau = slope;
            found.slope = slope, found.width = width, found.is_held = slope > -RATE_MAX;
        }
        if (width < 0 && there >= 0) found.least = slope + (next - slope) * (width / (width - there));
        if (width >= 0 && there < 0) found.greatest = slope + (next - slope) * (width / (width - there));
        slope = next, width = there;
        pass(&walk, slope);
    }
    if (isnan(plateau)) found.slope = slope, found.width = width;
    if (isnan(found.greatest)) found.greatest = width >= 0 ? slope : found.slope;
    if (isnan(found.least)) found.least = found.slope;
    return found;
}

/* The k-th smallest (from 0) of sign * (d - slope * t). Quickselect for many, insertion for few. */
static double kth(const struct point *from, int32_t count, double slope, double sign, int32_t k) {
    if (k < 16) {
        double best[16] = {0};
        int32_t have = 0;
        for (int32_t i = 0; i < count; i++) {
            double residual = sign * (from[i].d - slope * from[i].t);
            if (have > k && residual >= best[k]) continue;
            int32_t at = have <= k ? have++ : k;
            for (; at > 0 && best[at - 1] > residual; at--) best[at] = best[at - 1];
            best[at] = residual;
        }
        return best[k];
    }
    for (int32_t i = 0; i < count; i++) residuals[i] = sign * (from[i].d - slope * from[i].t);
    int32_t left = 0, right = count - 1;
    while (left < right) {
        double pivot = residuals[left + (right - left) / 2];
        int32_t i = left, j = right;
        while (i <= j) {
            while (residuals[i] < pivot) i++;
            while (residuals[j] > pivot) j--;
            if (i <= j) {
                double other = residuals[i];
                residuals[i++] = residuals[j];
                residuals[j--] = other;
            }
        }
        if (k <= j) right = j;
        else if (k >= i) left = i;
        else break;
    }
    return residuals[k];
}

/* One direction at the soft margin: the points that can decide there, and how many of them it leaves out. */
struct side {
    const struct point *from;
    int32_t count, skip;
    double sign;
};

static double side_at(const struct side *side, double slope) {
    return side->sign * kth(side->from, side->count, slope, side->sign, side->skip);
}

static double soft_width(const struct side sides[2], double slope) {
    return (side_at(&sides[0], slope) - side_at(&sides[1], slope)) / 2;
}

/* Only points that may be among the first `most` at some slope within `reach` of this one; exact, as no residual moves by
   more than reach * half the span, relative to the middle. Saves nine tenths of the work below. */
static int32_t nearest(const struct point *from, int32_t count, double slope, double sign, int32_t most, double reach,
                       double half_span, struct point *out) {
    double limit = kth(from, count, slope, sign, most) + 2 * reach * half_span;
    int32_t kept = 0;
    for (int32_t i = 0; i < count; i++)
        if (sign * (from[i].d - slope * from[i].t) <= limit) out[kept++] = from[i];
    return kept;
}

static int32_t at_most(int32_t value, int32_t limit) { return value < limit ? value : limit; }

/* Between which corners the points stand: half the window is to be spanned. */
static int spans(const struct point *hull, int32_t size, int64_t window_ns) {
    return size >= HULL_MIN && hull[size - 1].t - hull[0].t >= (double)window_ns / 2;
}

static double refine(const struct side sides[2], double middle, double reach) {
    double left = middle - reach, right = middle + reach;
    double a = right - GOLDEN * (right - left), b = left + GOLDEN * (right - left);
    double at_a = soft_width(sides, a), at_b = soft_width(sides, b);
    double best = middle, best_width = soft_width(sides, middle);
    for (int i = 0; i < STEPS; i++) {
        if (at_a > best_width) best = a, best_width = at_a;
        if (at_b > best_width) best = b, best_width = at_b;
        if (at_a < at_b) {
            left = a, a = b, at_a = at_b;
            b = left + GOLDEN * (right - left), at_b = soft_width(sides, b);
        } else {
            right = b, b = a, at_b = at_a;
            a = right - GOLDEN * (right - left), at_a = soft_width(sides, a);
        }
    }
    return best;
}

void fit_edge(const struct fit_point *upper, int32_t uppers, const struct fit_point *lower, int32_t lowers,
              int64_t end_ns, int64_t window_ns, double soft, struct fit *out) {
    memset(out, 0, sizeof *out);
    out->upper = uppers, out->lower = lowers;
    out->state = FIT_FEW;
    if (uppers < 1 || lowers < 1 || uppers > FIT_POINTS_MAX || lowers > FIT_POINTS_MAX) return;
    const struct fit_point *given[2] = {upper, lower};
    const int32_t counts[2] = {uppers, lowers};
    const double signs[2] = {1, -1};
    int64_t base_d = upper[0].d, middle = end_ns - window_ns / 2;
    int32_t sizes[2];
    double first = INFINITY, last = -INFINITY;
    for (int way = 0; way < 2; way++) {
        for (int32_t i = 0; i < counts[way]; i++) {
            points[way][i].t = (double)(given[way][i].t - middle);
            points[way][i].d = (double)(given[way][i].d - base_d);
        }
        sizes[way] = hull_of(points[way], counts[way], signs[way], hulls[way]);
        first = fmin(first, points[way][0].t);
        last = fmax(last, points[way][counts[way] - 1].t);
    }
    out->upper_hull = sizes[0], out->lower_hull = sizes[1];
    struct strip strip = widest(hulls[0], sizes[0], hulls[1], sizes[1]);
    out->state = FIT_NO_OVERLAP;
    if (!strip.is_held) return;

    struct side sides[2];
    double spread[2], half_span = fmax(fabs(first), fabs(last)), gap = 0;
    for (int way = 0; way < 2; way++) {
        int32_t skip = at_most((int32_t)(soft * counts[way]), counts[way] - 1);
        sides[way] = (struct side){points[way], counts[way], skip, signs[way]};
        gap += kth(points[way], counts[way], strip.slope, signs[way], skip) -
               kth(points[way], counts[way], strip.slope, signs[way], 0);
    }
    double slope = strip.slope, reach = half_span > 0 ? gap / half_span : 0;
    if (reach > 0) {
        for (int way = 0; way < 2; way++) {
            sides[way].count = nearest(points[way], counts[way], slope, signs[way], sides[way].skip, reach, half_span, near[way]);
            sides[way].from = near[way];
        }
        slope = refine(sides, slope, reach);
    }
    double above = side_at(&sides[0], slope), below = side_at(&sides[1], slope);
    double to_end = (double)(end_ns - middle), at_end = (above + below) / 2 + slope * to_end;
    for (int way = 0; way < 2; way++) {
        int32_t further = at_most(sides[way].skip + NEAR_MIN + counts[way] / 50, counts[way] - 1);
        double past = kth(points[way], counts[way], slope, signs[way], further);
        double per_point = (past - signs[way] * (way ? below : above)) / (further > sides[way].skip ? further - sides[way].skip : 1);
        spread[way] = per_point * sqrt(1.0 + sides[way].skip);
    }
    /* The lines that all points allow: at the window's end, at or after all points, the highest has the greatest slope. */
    struct walk walk = {hulls[0], hulls[1], 0, sizes[0], sizes[1] - 1};
    pass(&walk, strip.least);
    double lowest = hulls[1][walk.l].d + strip.least * (to_end - hulls[1][walk.l].t);
    pass(&walk, strip.greatest);
    double highest = hulls[0][walk.u].d + strip.greatest * (to_end - hulls[0][walk.u].t);
    out->offset_ns = base_d + (int64_t)llrint(at_end);
    out->rate_ppb = slope * 1e9;
    out->width_ns = strip.width;
    out->noise_ns = AT_END * hypot(spread[0], spread[1]) / 2;
    double rounded = (double)(out->offset_ns - base_d);
    out->bound_ns = fmax(highest - rounded, rounded - lowest);
    if (strip.width < -ROUNDING_NS) out->state = FIT_TORN, out->bound_ns = INFINITY;
    else if (uppers < POINTS_MIN || lowers < POINTS_MIN) out->state = FIT_FEW;
    else if (!spans(hulls[0], sizes[0], window_ns) || !spans(hulls[1], sizes[1], window_ns)) out->state = FIT_HULL;
    else out->state = FIT_VALID;
}
