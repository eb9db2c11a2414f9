-- Sets fields of a view's HASH, as its writer.
--
-- KEYS[1] view    HASH
-- KEYS[2] objects HASH  '' -> the view's position while the view may be read
-- ARGV[1] ID of the writer: refused when the view has another ID or none
-- ARGV[2] a field to count up by one, or ''
-- ARGV[3] the highest position that the writer has seen, or 0
-- then    two each: field, value; the field `rewound` ends the time in which the view may be read, and the field
--         `incarnation` renews the view, if the process has all of it (`reclaim.lua`)
--
-- Answer: the view's position, 0 before its first, or -1 when the view has another writer and nothing was done.

local view, objects = KEYS[1], KEYS[2]
if redis.call('HGET', view, 'writerId') ~= ARGV[1] then
  return -1
end
if ARGV[2] ~= '' then
  redis.call('HINCRBY', view, ARGV[2], 1)
end
if #ARGV > 3 then
  redis.call('HSET', view, unpack(ARGV, 4))
end
for at = 4, #ARGV, 2 do
  if ARGV[at] == 'rewound' then
    redis.call('HDEL', objects, '')
  elseif ARGV[at] == 'incarnation' then
    local process = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
    local before = redis.call('HMGET', view, 'process', 'position', 'version', 'rewound')
    local written_on, position, version, rewound = unpack(before)
    if not written_on or written_on == process or written_on == '?' .. process then
      -- The time in microseconds is ahead of the positions that were given out, lost positions included.
      local time = redis.call('TIME')
      position = math.max((tonumber(position) or 0) + 1, ARGV[3] + 1, time[1] * 1e6 + time[2])
      position = string.format('%.0f', position)
      redis.call('HSET', view, 'process', process, 'position', position)
      if version and rewound ~= '1' then
        redis.call('HSET', objects, '', position)
      end
    else
      -- The list was applied on another process, wholly or in part: recovery lists a view without an incarnation again.
      redis.call('HDEL', view, 'incarnation')
    end
  end
end
return tonumber(redis.call('HGET', view, 'position') or 0)
