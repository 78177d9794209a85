package dispatch

import "time"

// ForgetFull makes the next refresh read everything.
func (d *Dispatcher) ForgetFull() {
	d.lanes.mu.Lock()
	defer d.lanes.mu.Unlock()
	d.lanes.whole = time.Time{}
}
