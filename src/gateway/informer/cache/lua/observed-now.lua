-- Included by apply.lua and observe.lua. Makes the entry of an object in the HASH of an observed field; nil when the HASH
-- has it already. An unchanged value keeps its time, and so does each unchanged item of 'uid \n item \n ...'.
local function observed_now(stored, value, now)
  local uid, items = string.match(value, '^([^\n]*)(.*)$')
  if items ~= '' then
    local times = {}
    if stored and string.match(stored, '^%d+ ([^\n]*)') == uid then
      for time, item in string.gmatch(stored, '\n(%d+) ([^\n]*)') do times[item] = time end
    end
    local lines = { uid }
    for item in string.gmatch(items, '\n([^\n]*)') do lines[#lines + 1] = (times[item] or now) .. ' ' .. item end
    value = table.concat(lines, '\n')
  end
  if stored and string.sub(stored, string.find(stored, ' ', 1, true) + 1) == value then
    return nil
  end
  return now .. ' ' .. value
end
