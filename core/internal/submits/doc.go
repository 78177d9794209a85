// Package submits has jobs on their way into lanes: new ones with the defaults of their queues, reruns, redrives, the jobs
// of schedules and webhooks, and such as were left without a lane.
package submits
