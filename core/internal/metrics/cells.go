package metrics

import "github.com/prometheus/client_golang/prometheus"

// RegisterCell registers whether a cell answers; open is called at each scrape.
func RegisterCell(registry prometheus.Registerer, open func() bool) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "forgequeue_cell_open",
		Help: "1 if the cell's database answers, 0 while this core refuses the cell's tenants. Only where there are several cells; the label `cell` is then also on all other metrics but those of calls.",
	}, func() float64 {
		if open() {
			return 1
		}
		return 0
	}))
}
