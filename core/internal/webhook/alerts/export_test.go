package alerts

// AskedSQL is for tests of its plan.
const AskedSQL = askedSQL
