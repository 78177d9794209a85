// Package cache holds lanes, queue settings, limits, and which workers serve which queue in memory.
// Refreshes read what has changed; an entry is at most one refresh old.
package cache
