// Package diagnosis has the findings about a server that a service depends on.
package diagnosis

import "time"

// Levels of a Finding.
const (
	LevelOK   = "ok"
	LevelWarn = "warn"
	LevelFail = "fail"
)

// Finding is the result of one check.
type Finding struct {
	// Check names it, such as "PostgreSQL version".
	Check string
	Level string
	// Detail is what was found, Advice what to change; empty where nothing is to be.
	Detail, Advice string
}

// Diagnosis is all that was found of one server.
type Diagnosis struct {
	Findings []Finding
	// Reached says that the settings could be read and the server answered.
	Reached bool
	// Clock is how far the server's clock is ahead of this machine's, give or take
	// Doubt. They tell nothing where Reached is false.
	Clock, Doubt time.Duration
}

// Add adds a finding.
func (d *Diagnosis) Add(level, check, detail, advice string) {
	d.Findings = append(d.Findings, Finding{Check: check, Level: level, Detail: detail, Advice: advice})
}
