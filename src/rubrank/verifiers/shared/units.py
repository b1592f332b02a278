"""Units of measurement and how they convert: `UNITS["km"]` is `(1000.0, "length")`."""

from __future__ import annotations

# dimension: names=factor, in base units of the dimension
_TABLE = """
length: km 千米 公里 kilometers kilometres kilometer kilometre=1000
length: kilómetros kilomètres kilometern キロメートル 킬로미터 км=1000
length: m 米 meters metres meter metre metros mètres metern メートル 미터 м=1
length: cm 厘米 公分 centimeters centimetres 센티미터 см=0.01
length: dm 分米=0.1; mm 毫米 millimeters=0.001; μm µm um 微米=0.000001; nm 纳米=0.000000001; 里=500
length: miles mile mi 英里=1609.344; ft feet foot 英尺=0.3048; in inches inch 英寸=0.0254; yd yards yard=0.9144
mass: kg 千克 公斤 kilograms kilogram キログラム 킬로그램 кг=1; g 克 grams gram グラム 그램 г=0.001; mg 毫克=0.000001
mass: t 吨 tonnes tons tonne ton=1000; 斤=0.5; lb lbs pounds pound 磅=0.45359237; oz ounces ounce=0.028349523125
time: h hr hrs hours hour 小时 時間 시간 horas heures stunden=3600
time: min mins minutes minute 分钟 分鐘 분 minutos minuten=60
time: s sec secs seconds second 秒 초 segundos secondes sekunden=1; ms 毫秒=0.001
time: days day 天 日間 días jours tage=86400; weeks week 周 星期=604800
volume: l liters litres liter litre 升 リットル=1; ml 毫升=0.001
volume: m³ m^3 m^{3} 立方米=1000; cm³ cm^3 cm^{3} 立方厘米=0.001
area: m² m^2 m^{2} 平方米=1; km² km^2 km^{2} 平方千米 平方公里=1000000; cm² cm^2 cm^{2} 平方厘米=0.0001
area: ha 公顷 hectares=10000
yuan: ¥ 元 圆 rmb cny 人民币 块钱 yuan=1; 角=0.1
yen: 円 日元 yen jpy=1
won: 원 krw won=1
dollar: $ usd dollars dollar 美元 美金 달러 ドル=1; cents cent 美分=0.01
euro: € eur euros euro 欧元 ユーロ=1
pound: £ gbp 英镑=1
rupee: ₹ inr rupees rupee=1
celsius: °c ℃ 摄氏度=1
degree: ° 度 degrees degree 도=1
"""
UNITS: dict[str, tuple[float, str]] = {}
for _line in _TABLE.split("\n")[1:-1]:
    _dimension, _, _entries = _line.partition(": ")
    for _entry in _entries.split("; "):
        _names, _, _factor = _entry.partition("=")
        UNITS |= dict.fromkeys(_names.split(), (float(_factor), _dimension))
MONEY = frozenset(("yuan", "yen", "won", "dollar", "euro", "pound", "rupee"))


def dimension(unit: str) -> str:
    """What the unit measures; a unit that is not known measures itself."""
    return UNITS[unit][1] if unit in UNITS else unit
