package httpapi

import "time"

// SetStreamTimes makes event streams take other times.
func (s *Server) SetStreamTimes(life, quiet, write time.Duration) {
	s.streams.times = streamTimes{life: life, quiet: quiet, write: write}
}
