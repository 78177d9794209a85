package app

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/diagnosis"
	"github.com/forgequeue/forgequeue/shared/server/redisclient"
	"github.com/forgequeue/forgequeue/shared/server/redisurl"
)

const (
	// diagnosisTime bounds the whole diagnosis.
	diagnosisTime = 20 * time.Second
	dialTime      = 5 * time.Second
	// tolerable is how long the gateway waits for Redis before it decides in memory.
	tolerable = 50 * time.Millisecond
)

// look is a Diagnosis in the making.
type look struct{ diagnosis.Diagnosis }

// Diagnose checks the Redis of redisURL as the gateway would use it, and reports what
// is wrong with it. It writes only one key, which expires within a second.
func Diagnose(ctx context.Context, redisURL string) diagnosis.Diagnosis {
	ctx, cancel := context.WithTimeout(ctx, diagnosisTime)
	defer cancel()
	var d look
	client, err := redisclient.Open(redisURL, redisclient.Options{DialTimeout: dialTime}) // longer than admission's
	if err != nil {
		d.Add(diagnosis.LevelFail, "Redis", "REDIS_URL cannot be read: "+err.Error(), "it should look like "+redisurl.Form)
		return d.Diagnosis
	}
	defer func() { _ = client.Close() }() // it was only read
	if err := client.Ping(ctx); err != nil {
		d.Add(diagnosis.LevelFail, "Redis", err.Error(), "start the server, or correct REDIS_URL; without Redis each gateway limits by itself")
		return d.Diagnosis
	}
	if d.Clock, d.Doubt, err = clockOf(ctx, client); err != nil {
		d.Add(diagnosis.LevelFail, "Redis", "TIME: "+err.Error(), "allow the command TIME to this user")
		return d.Diagnosis
	}
	d.Reached = true
	d.speed()
	d.version(ctx, client)
	d.scripts(ctx, client)
	d.hints(ctx, client)
	d.memory(ctx, client)
	return d.Diagnosis
}

// clockOf compares the clocks by the quickest of a few calls, as NTP does: the answer
// was written at some time between the call and its return.
func clockOf(ctx context.Context, client *redisclient.Client) (ahead, doubt time.Duration, err error) {
	const questions = 5
	for i := range questions {
		asked := time.Now()
		told, err := client.Time(ctx)
		if err != nil {
			return 0, 0, err
		}
		half := time.Since(asked) / 2
		if i == 0 || half < doubt {
			ahead, doubt = told.Sub(asked.Add(half)), half
		}
	}
	return ahead, doubt, nil
}

// speed checks the quickest answer: if that is slow, all are.
func (d *look) speed() {
	took := (2 * d.Doubt).Round(10 * time.Microsecond)
	detail := fmt.Sprintf("answers within %v", took)
	if took > tolerable/2 {
		d.Add(diagnosis.LevelWarn, "Redis latency", detail, fmt.Sprintf("bring it nearer: a gateway waits for %v, then decides alone", tolerable))
		return
	}
	d.Add(diagnosis.LevelOK, "Redis latency", detail, "")
}

func (d *look) version(ctx context.Context, client *redisclient.Client) {
	const check = "Redis version"
	info := infoOf(ctx, client, "Server")
	if valkey := info["valkey_version"]; valkey != "" {
		d.Add(diagnosis.LevelOK, check, "Valkey "+valkey, "")
		return
	}
	version := info["redis_version"]
	major, _, _ := strings.Cut(version, ".")
	number, err := strconv.Atoi(major)
	switch {
	case err != nil:
		d.Add(diagnosis.LevelWarn, check, "the server does not tell its version", "use Redis 7 or newer, or Valkey")
	case number < 7:
		d.Add(diagnosis.LevelFail, check, version+" is too old", "Redis 7 or newer, or Valkey, is needed")
	default:
		d.Add(diagnosis.LevelOK, check, "Redis "+version, "")
	}
}

// probe does what the gateway's scripts do: it asks for the time, reads and writes.
const probe = `
local time = redis.call('TIME')
redis.call('MGET', KEYS[1])
redis.call('SET', KEYS[1], time[1], 'PX', ARGV[1])
return tonumber(time[1])`

func (d *look) scripts(ctx context.Context, client *redisclient.Client) {
	const check = "Redis scripts"
	key := "fq:doctor:" + strconv.FormatInt(time.Now().UnixNano(), 36)
	call := redisclient.Call{Keys: []string{key}, Args: []any{time.Second.Milliseconds()}}
	client.Run(ctx, redisclient.NewScript(probe), []*redisclient.Call{&call})
	switch err := call.Err; {
	case err == nil:
		d.Add(diagnosis.LevelOK, check, "EVALSHA and EVAL work, and may write", "")
	case strings.HasPrefix(err.Error(), "READONLY"):
		d.Add(diagnosis.LevelFail, check, "the server is a replica and takes no writes", "let REDIS_URL name the primary")
	default:
		d.Add(diagnosis.LevelFail, check, err.Error(), "allow EVAL, EVALSHA, TIME, MGET and SET on fq:* to this user; without scripts each gateway limits by itself")
	}
}

// hints checks pub/sub, by which revocations and wake-ups are sent.
func (d *look) hints(ctx context.Context, client *redisclient.Client) {
	const check = "Redis pub/sub"
	if _, err := client.Publish(ctx, "fq:doctor", ""); err != nil {
		d.Add(diagnosis.LevelWarn, check, err.Error(), "allow PUBLISH and SUBSCRIBE on fq:*; without them jobs are found by polls, and a revoked key works for 30 s more")
		return
	}
	d.Add(diagnosis.LevelOK, check, "PUBLISH works", "")
}

// memory checks what the server does when it is full. Persistence does not matter: all
// data in Redis may be lost.
func (d *look) memory(ctx context.Context, client *redisclient.Client) {
	const check = "Redis memory"
	info := infoOf(ctx, client, "Memory")
	limit, policy := info["maxmemory"], info["maxmemory_policy"]
	switch {
	case limit == "" || policy == "":
		d.Add(diagnosis.LevelWarn, check, "the server does not tell its maxmemory-policy", "")
	case limit == "0":
		d.Add(diagnosis.LevelOK, check, "no maxmemory, so nothing is evicted (maxmemory-policy "+policy+")", "")
	case policy == "noeviction":
		d.Add(diagnosis.LevelWarn, check, "maxmemory is "+limit+" bytes with maxmemory-policy noeviction: once it is full the limiter's writes are refused",
			"set maxmemory-policy to volatile-ttl: it forgets the buckets that are nearly full again")
	case !slices.Contains([]string{"allkeys-lru", "allkeys-lfu", "volatile-lru", "volatile-lfu", "volatile-ttl"}, policy):
		d.Add(diagnosis.LevelWarn, check, "maxmemory-policy "+policy+" evicts keys in use like any other", "set maxmemory-policy to volatile-ttl")
	default:
		d.Add(diagnosis.LevelOK, check, "maxmemory is "+limit+" bytes, maxmemory-policy "+policy, "")
	}
}

// infoOf reads a section of INFO; nil if the server does not give it.
func infoOf(ctx context.Context, client *redisclient.Client, section string) map[string]string {
	told, err := client.Info(ctx, section)
	if err != nil {
		return nil
	}
	return told[section]
}
