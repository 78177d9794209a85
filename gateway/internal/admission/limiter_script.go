//go:build !mutant_limiter_read_then_write

package admission

// limiterScript is the script that decides.
func limiterScript() string { return limiterLua }
