-- Deletes the records of keys at rest whose barriers have passed, because no start of these keys may ever do so.
--
-- ARGV    two each: key, barrier that the caller has found passed
--
-- Answer: how many records were deleted. A key that rests with another barrier stays.

local gone = 0
local records, idle = KEYS[1] .. ':key:', KEYS[1] .. ':resting'
for at = 1, #ARGV, 2 do
  local key = ARGV[at]
  local record = records .. key
  local barrier = redis.call('HGET', record, 'barrier')
  if not barrier or barrier == ARGV[at + 1] then
    redis.call('ZREM', idle, key)
    -- The record has the fields barrier and barrierAt only. With further fields the key has something to do, and its start
    -- removes these two.
    if barrier and redis.call('HLEN', record) == 2 then
      redis.call('UNLINK', record)
      gone = gone + 1
    end
  end
end
return gone
