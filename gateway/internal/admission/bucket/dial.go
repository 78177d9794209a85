package bucket

import (
	"fmt"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/redisclient"
)

// Dial makes the client of a Limiter that waits for Redis for budget; it does not dial yet. Package redisurl has the
// forms of URLs.
func Dial(url string, budget time.Duration) (*redisclient.Client, error) {
	options := clientOptions()
	if budget != Budget {
		options.DialTimeout, options.PoolTimeout = budget, budget
		options.ReadTimeout, options.WriteTimeout = budget, budget
	}
	client, err := redisclient.Open(url, options)
	if err != nil {
		return nil, fmt.Errorf("redis url: %w", err)
	}
	return client, nil
}

// clientOptions are those of a limiter: a late answer is not used, and the
// library's defaults (seconds, with retries) would let a frozen Redis block every
// request.
func clientOptions() redisclient.Options {
	return redisclient.Options{
		DialTimeout:  150 * time.Millisecond,
		DialRetries:  1,
		ReadTimeout:  50 * time.Millisecond,
		WriteTimeout: 50 * time.Millisecond,
		PoolTimeout:  25 * time.Millisecond,
	}
}
