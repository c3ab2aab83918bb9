"""Tables whose columns are times: low rank, and each sensor's own process in time.

With s a sensor, d a day (any period; one, if there is none) and p a slot of the day,

    Y[s, d, p] = rows[s] slots[p] (A_s . R[d, p] + U[s, d, p] + noise)

R, what sensors share, and U, what is a sensor's own, are Gaussian in one orthonormal basis of
time, days x cosines of slots. There the vector of all sensors has the covariance

    own I + A diag(shared) A'        of each mode, A orthonormal

with variances `own` and `shared` that the data give (empirical Bayes). The best estimate is a
weighted least-squares problem, solved by conjugate gradients whose preconditioner is its exact
solution for equal weights."""
