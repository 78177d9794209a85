package view

// NearPercent is from where on a limit is shown as near its end.
const NearPercent = 85

// Gauge is a limit with its use.
type Gauge struct {
	Name        string
	Used, Limit int64
	// Percent is 0 to 100.
	Percent int64
	// Near says that little is left; Full what happens when nothing is.
	Near bool
	Full string
	// Means is what the limit limits.
	Means string
	Rate  float64
	// ResetMS is until a bucket is full again.
	ResetMS int64
}

// NewGauge makes a gauge of a limit and what is used of it.
func NewGauge(name string, used, limit int64) Gauge {
	g := Gauge{Name: name, Used: used, Limit: limit}
	if limit > 0 {
		g.Percent = min(max(used*100/limit, 0), 100)
	} else if used >= limit {
		g.Percent = 100
	}
	g.Near = g.Percent >= NearPercent
	return g
}
