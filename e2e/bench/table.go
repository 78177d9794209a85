package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// serverRow is a line of the table of servers: medians, and the ratios to ours, by column. What was not measured is absent.
type serverRow struct {
	Row     string             `json:"row"`
	Medians map[string]float64 `json:"medians"`
	Ratios  map[string]float64 `json:"ratios_to_forgequeue"`
}

// serverRows sums the rounds up. A ratio is the median of the rounds' own, in which both were run in turn.
func (r *results) serverRows() (all []serverRow) {
	for _, row := range rows() {
		one := serverRow{Row: row, Medians: map[string]float64{}, Ratios: map[string]float64{}}
		base := r.Measures[serverMeasure(row, columnOurs)]
		for _, column := range columns() {
			var values, ratios []float64
			for _, round := range sortedRounds(r.Measures[serverMeasure(row, column)]) {
				value := r.Measures[serverMeasure(row, column)][round]
				values = append(values, value)
				if base[round] != 0 {
					ratios = append(ratios, value/base[round])
				}
			}
			if len(values) > 0 {
				one.Medians[column] = median(values)
			}
			if len(ratios) > 0 && column != columnOurs {
				one.Ratios[column] = median(ratios)
			}
		}
		if len(one.Medians) > 0 {
			all = append(all, one)
		}
	}
	return all
}

// printServers prints the table: a column for each server of which something was measured.
func (r *results) printServers(to io.Writer) {
	r.Servers = r.serverRows()
	if len(r.Servers) == 0 {
		return
	}
	var shown []string
	for _, column := range columns() {
		for _, row := range r.Servers {
			if _, ok := row.Medians[column]; ok {
				shown = append(shown, column)
				break
			}
		}
	}
	fmt.Fprintln(to)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "SERVERS, medians\t%s\n", strings.Join(heads(shown), "\t"))
	for _, row := range r.Servers {
		cells := []string{row.Row}
		for _, column := range shown {
			cells = append(cells, cell(row.Medians, column))
			if column != columnOurs {
				cells = append(cells, cell(row.Ratios, column))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // nobody to be told
}

func heads(shown []string) (all []string) {
	for _, column := range shown {
		all = append(all, column)
		if column != columnOurs {
			all = append(all, "÷ ours")
		}
	}
	return all
}

// cell has three digits that count, or all before the point.
func cell(of map[string]float64, column string) string {
	value, ok := of[column]
	switch {
	case !ok:
		return "–"
	case value >= 100:
		return strconv.FormatFloat(value, 'f', 0, 64)
	default:
		return strconv.FormatFloat(value, 'g', 3, 64)
	}
}
