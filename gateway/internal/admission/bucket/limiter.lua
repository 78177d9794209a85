-- Settles one request over any number of token buckets (GCRA), and the hints that
-- a cap is full. It reads everything first and charges only if all pass: a refused
-- request pays nothing, whichever bucket refused it.
--
-- KEYS   first the hints, then the buckets; all in one hash slot, none twice.
-- ARGV   [1] "charge", or "peek": only look
--        [2] how many of KEYS are hints
--        [3] how many requests this is: equal ones, one after the other; 1 for a peek
--        then for each bucket three integers:
--        its rate in thousandths per second, its burst, the cost of this request
-- Returns {verdict, now, hint, passed, debt of the first bucket, of the second, ...}
--        verdict  0 all pass (and, unless peeking, are charged), 1 a bucket has too
--                 little, 2 a cap is full
--        now      Redis TIME in microseconds
--        hint     what the first full cap's key holds, or ""
--        passed   how many of them pass; the verdict is about the others
--        debt     before the first: what is missing from the full bucket, in ticks
--
-- One request or job costs 10^9 ticks, and a bucket regains `rate` ticks every
-- microsecond: fractional rates come out exact, with no division on the way in.
-- A key holds what is owed, as three big-endian integers of eight bytes: when it was
-- written in microseconds, what was missing from the full bucket then in ticks, and
-- the rate in force. (As text it costs the script half as much again.) What is owed
-- is owed in tokens: another rate or burst changes nothing of it. No key, or one that
-- holds anything else, is a full bucket; each expires when its bucket is full.
--
-- Everything is an integer below 2^53, where doubles are exact; gcra.go has the
-- bounds that make it so, and the model that a property test holds this to.

local UNIT = 1000000000
local MOST_DEBT, MOST_RATE = 8000000 * UNIT, 1000000000000

local charging = ARGV[1] == 'charge'
local hints, times = tonumber(ARGV[2]), tonumber(ARGV[3])
local buckets = #KEYS - hints

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
-- MGET takes a key of another type for none, so no foreign key can break this.
local held = redis.call('MGET', unpack(KEYS))

-- What is missing from a full bucket, and whether the key is to be written anew: by
-- another rate it counts from now on, and a time that is ahead is from before the
-- clock was set back. When the rate changed is not known: since the last write the
-- lower of the two counts.
local function debt_of(value, rate)
  if not value or #value ~= 24 then
    return 0, false
  end
  local at, debt, old = struct.unpack('>i8i8i8', value)
  if debt < 1 or debt > MOST_DEBT or old < 1 or old > MOST_RATE then
    return 0, false
  end
  local passed = now - at
  if passed < 0 then
    return debt, true
  end
  if passed > math.floor(debt / old) then
    return 0, false
  end
  return debt - passed * math.min(old, rate), old ~= rate
end

local function store(key, debt, rate)
  -- A millisecond more than it needs: expiry goes by a coarser clock.
  local life = math.ceil((math.floor(debt / rate) + 1) / 1000) + 1
  redis.call('SET', key, struct.pack('>i8i8i8', now, debt, rate), 'PX', string.format('%d', life))
end

local verdict, hint = 0, ''
for i = 1, hints do
  if held[i] then
    verdict, hint = 2, held[i]
    break
  end
end

local passed = verdict == 0 and times or 0
local debts, rates, costs, stale = {}, {}, {}, {}
for i = 1, buckets do
  local at = 3 * i + 1
  local rate, size, cost = tonumber(ARGV[at]), ARGV[at + 1] * UNIT, ARGV[at + 2] * UNIT
  local debt, anew = debt_of(held[hints + i], rate)
  if cost > 0 then
    passed = math.max(0, math.min(passed, math.floor((size - debt) / cost)))
  end
  debts[i], rates[i], costs[i], stale[i] = debt, rate, cost, anew
end

if verdict == 0 and passed < times then
  verdict = 1
end

if charging then
  for i = 1, buckets do
    local paid = passed * costs[i]
    -- A stale key is set right by a refusal too: otherwise its bucket would regain
    -- nothing until the clock is where it was, or go on by the former rate.
    if paid > 0 or stale[i] then
      store(KEYS[hints + i], debts[i] + paid, rates[i])
    end
  end
end

local reply = {verdict, now, hint, passed}
for i = 1, buckets do
  reply[4 + i] = debts[i]
end
return reply
