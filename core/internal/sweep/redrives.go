package sweep

import (
	"context"
	"errors"
	"time"
)

const (
	// redrivesPerRound is how many redrives get a step before the due ones are listed again.
	redrivesPerRound = 16
	// redriveRetry is the mean sleep after an error.
	redriveRetry = time.Second
)

// Redrives processes redrives and discards by filter, a batch of each in rotation. The lock on a
// redrive's row decides which core runs a batch. It sleeps until the next step is due, or a redrive begins.
func (d Duties) Redrives() *Duty {
	return d.kicked(d.engine.Publisher.Redrives, "redrive", func(ctx context.Context) (time.Duration, error) {
		sleep, err := d.stepRedrives(ctx)
		if err != nil {
			sleep = jittered(redriveRetry, 0.5)
		}
		return sleep, err
	})
}

// stepRedrives runs a step of every due redrive, until none is due, and returns how long to sleep. A failure of one
// does not stop the others.
func (d Duties) stepRedrives(ctx context.Context) (time.Duration, error) {
	for {
		sleep, isDue, err := d.nextRedrive(ctx)
		if err != nil || !isDue {
			return sleep, err
		}
		due, err := d.store.DeadLetters.DueRedrives(ctx, redrivesPerRound)
		if err != nil {
			return sleep, err
		}
		var errs []error
		worked := false
		for _, one := range due {
			mine, err := d.engine.Submits.StepRedrive(ctx, one, random())
			worked = worked || mine
			errs = append(errs, err)
		}
		if err := errors.Join(errs...); err != nil || !worked { // not worked: other cores have locked them
			return sleep, err
		}
	}
}

// nextRedrive finds out how long to sleep, and whether a redrive is due.
func (d Duties) nextRedrive(ctx context.Context) (sleep time.Duration, due bool, err error) {
	next, err := d.store.DeadLetters.NextRedrive(ctx)
	if err != nil || next == nil {
		return longNet, false, err
	}
	return untilDue(*next, true, longNet), *next <= 0, nil
}
