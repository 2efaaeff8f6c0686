/* The clock of a peer against ours, from the probes of one edge and window. Pure: no clock, no memory of its own.

   A probe from us, sent at T by our clock and received at R by theirs, says that they are ahead by at most u = R - T; one
   from them, sent at T by their clock and received at R by ours, that they are ahead by at least l = T - R. Over a short
   window the difference is a straight line of our time, below all points (T, u) and above all points (R, l):

       u     *      *   *                 upper points, with the queueing of our probes above the line
       -----*----*---------*-----  hull   ^
       ==================================  | twice the width: the line in the middle is the answer
       ---*------*----*----------  hull   v
       l       *         *    *           lower points

   Of all strips between the two hulls the widest is taken, exactly: its width is concave and piecewise linear in the
   slope, with a corner at the slope of each hull edge, so one walk over the edges of both hulls in order of their slopes
   finds it in linear time. Then a soft margin: at a given slope the k-th smallest residual stands for the smallest, so
   that a few stamps that were taken late do not decide; the slope is refined around the exact one.

   Sources: Duda et al. 1987 (hulls of two-way messages); Moon, Skelly and Towsley 1999; Zhang, Liu and Xia 2002. */
#ifndef LEADLINE_FIT_H
#define LEADLINE_FIT_H

#include <stdint.h>

enum { FIT_POINTS_MAX = 2048 }; /* per direction; 4 s at 250 pairs/s */

struct fit_point {
    int64_t t; /* on our clock, ns */
    int64_t d; /* theirs less ours, ns */
};

enum fit_state { FIT_VALID, FIT_FEW, FIT_HULL, FIT_TORN, FIT_NO_OVERLAP };

struct fit {
    int64_t offset_ns;    /* theirs less ours at the end of the window */
    double rate_ppb;      /* by which theirs gains on ours */
    double bound_ns;      /* no line that all points allow is further away at the end of the window */
    double width_ns;      /* half the width of the widest strip: half the smallest delay there and back */
    double noise_ns;      /* standard error of the offset, from how densely points lie at the strip's sides */
    int32_t upper, lower; /* points */
    int32_t upper_hull, lower_hull;
    int32_t state; /* enum fit_state */
};

/* Points of each direction in ascending order of t, each within 2^52 ns of `end_ns` and of each other's d. `soft`: the
   share of points of each direction that the margin may leave out. Where the state is not FIT_VALID, the counts and
   hulls stand, and what else could be found; FIT_NO_OVERLAP has no line. */
void fit_edge(const struct fit_point *upper, int32_t uppers, const struct fit_point *lower, int32_t lowers,
              int64_t end_ns, int64_t window_ns, double soft, struct fit *out);

#endif
