// Package drain knows how fast lines move: how many jobs of each lane start in a second, as decaying averages that each
// core keeps in memory and reports to the others, and when a caller that was refused for a full cap may come back.
//
//	claims ──▶ Rates ──a report every 2 s, while jobs start──▶ drain_reports
//	             ▲                                                  │
//	             └──────────────on demand, 2 s old at most──────────┘
//
// All of it is a hint: a loss makes an estimate unknown for a few seconds.
package drain
